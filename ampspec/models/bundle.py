"""A model that the Python code of a bundle builds, `model: {kind: bundle}`."""

import json
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, JsonValue, WithJsonSchema
from pydantic_core import PydanticCustomError

from ampspec.references.stored_files import FILE_REFERENCE

IDENTIFIER: Final = r"[A-Za-z_][A-Za-z0-9_]*"
ENTRY_POINT: Final = rf"^{IDENTIFIER}(\.{IDENTIFIER})*:{IDENTIFIER}$"
MAX_OPTIONS_BYTES: Final = 16 * 1024
MAX_OPTIONS_DEPTH: Final = 8


def _check_options(options: dict[str, Any]) -> dict[str, Any]:
    if _depth(options, MAX_OPTIONS_DEPTH + 1) > MAX_OPTIONS_DEPTH:
        raise PydanticCustomError("too_deep", f"at most {MAX_OPTIONS_DEPTH} levels of nesting")
    try:
        size = len(json.dumps(options, allow_nan=False))
    except ValueError:
        raise PydanticCustomError("not_finite", "finite numbers") from None
    if size > MAX_OPTIONS_BYTES:
        raise PydanticCustomError("too_large", f"at most {MAX_OPTIONS_BYTES} bytes as JSON")
    return options


def _depth(value: Any, limit: int) -> int:
    """The levels of objects and lists in a value; counting stops at `limit`."""
    if limit == 0 or not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max((_depth(item, limit - 1) for item in inner), default=0)


BundleReference = Annotated[str, Field(pattern=FILE_REFERENCE)]
"""The SHA-256 of a bundle stored in the project."""

EntryPoint = Annotated[str, Field(max_length=200, pattern=ENTRY_POINT)]
"""A function of a module, as in `net:build` or `models.net:build`."""

Options = Annotated[
    dict[str, JsonValue], AfterValidator(_check_options), WithJsonSchema({"type": "object"})
]
"""A JSON object of bounded size and depth."""
