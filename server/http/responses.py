"""JSON responses: non-finite numbers are strings."""

import json
import re
from typing import Any, Final
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ampspec.telemetry.json_values import json_safe
from store.access.idempotency import StoredResponse

REPLAYED: Final = {"Idempotency-Replayed": "true"}
UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9._-]")


class FiniteJSONResponse(JSONResponse):
    """JSON with NaN and the infinities as the strings "NaN", "Infinity" and "-Infinity"."""

    def render(self, content: Any) -> bytes:
        """The content as UTF-8; a lone surrogate stays an escape."""
        return dumps(json_safe(content)).encode("ascii")


class ModelResponse(Response):
    """A pydantic model as JSON, without FastAPI's second validation and copy."""

    media_type = "application/json"

    def render(self, content: BaseModel) -> bytes:
        """The model as JSON in UTF-8."""
        return content.model_dump_json(by_alias=True).encode()


def mark_replayed(stored: StoredResponse) -> StoredResponse:
    """The stored response with the header Idempotency-Replayed."""
    return StoredResponse(stored.status, stored.headers | REPLAYED, stored.body)


def to_response(stored: StoredResponse) -> Response:
    """A stored response as it is sent."""
    media_type = "application/json" if stored.body else None
    return Response(stored.body, stored.status, stored.headers, media_type)


def dumps(content: Any) -> str:
    """Compact JSON in ASCII. Raises ValueError for a non-finite number."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def content_disposition(name: str) -> str:
    """Content-Disposition of a file that the browser saves and never shows (RFC 6266)."""
    ascii_name, utf8_name = UNSAFE_CHARACTERS.sub("_", name), quote(name, safe="")
    return f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{utf8_name}"
