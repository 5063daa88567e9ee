"""JSON answers: numbers that JSON cannot write go out as strings."""

import json
import re
from typing import Any, Final
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ampcore.series.jsonable import finite_json
from store.idempotency import Answer

REPLAYED: Final = {"Idempotency-Replayed": "true"}
ODD: Final = re.compile(r"[^A-Za-z0-9._-]")


class FiniteJSONResponse(JSONResponse):
    """JSON with NaN and the infinities as the strings "NaN", "Infinity" and "-Infinity"."""

    def render(self, content: Any) -> bytes:
        """The content as UTF-8; a lone surrogate stays an escape."""
        return dumps(finite_json(content)).encode("ascii")


class ModelResponse(Response):
    """A view as JSON, written once: FastAPI would check and copy it before."""

    media_type = "application/json"

    def render(self, content: BaseModel) -> bytes:
        """The view as UTF-8."""
        return content.model_dump_json(by_alias=True).encode()


def replayed(answer: Answer) -> Answer:
    """A stored answer, marked as one."""
    return Answer(answer.status, answer.headers | REPLAYED, answer.body)


def response_of(answer: Answer) -> Response:
    """An answer that is, or will be, stored, as it is sent."""
    media_type = "application/json" if answer.body else None
    return Response(answer.body, answer.status, answer.headers, media_type)


def dumps(content: Any) -> str:
    """Compact JSON in ASCII. Raises ValueError for a non-finite number."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def attachment(name: str) -> str:
    """Content-Disposition: to be kept under its own name, and never shown as a page (RFC 6266)."""
    return f"attachment; filename=\"{ODD.sub('_', name)}\"; filename*=UTF-8''{quote(name, safe='')}"
