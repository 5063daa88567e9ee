"""JSON answers: numbers that JSON cannot write go out as strings."""

import json
from typing import Any

from fastapi.responses import JSONResponse

from ampcore.series.jsonable import finite_json


class FiniteJSONResponse(JSONResponse):
    """JSON with NaN and the infinities as the strings "NaN", "Infinity" and "-Infinity"."""

    def render(self, content: Any) -> bytes:
        """The content as UTF-8; a lone surrogate stays an escape."""
        return dumps(finite_json(content)).encode("ascii")


def dumps(content: Any) -> str:
    """Compact JSON in ASCII. Raises ValueError for a non-finite number."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)
