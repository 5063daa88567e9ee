"""One entry of a model's `layers`, a layer or another call of one, and its parser."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError

from ampspec.documents.problems import fields_at
from ampspec.layers.base import Entry, InputNames, Layer
from ampspec.layers.fields import LayerName

E = TypeVar("E", bound=Entry)


class Reuse(Entry):
    """Another call of a layer of this list, with the same weights."""

    reuse: LayerName
    """The name of the layer."""
    name: LayerName | None = None
    """The name of this output; by default the layer's name, numbered."""
    inputs: InputNames | None = None
    """The names of layers or inputs; by default the previous layer."""


def parse_entry(value: object) -> Layer | Reuse:
    """One entry of `layers`. Raises pydantic's errors, at the locations of the fields."""
    if isinstance(value, Layer | Reuse):
        return value
    if not isinstance(value, Mapping):
        raise PydanticKnownError("dict_type")
    if "reuse" in value and "layer" not in value:
        return _validate(Reuse, value)
    kind = value.get("layer")
    if kind is None:
        raise PydanticKnownError("union_tag_not_found", {"discriminator": "'layer'"})
    from ampspec.layers.catalog import LAYERS  # the classes of all layers, only when needed

    if not isinstance(kind, str) or kind not in LAYERS:
        raise _unknown(kind)
    return _validate(LAYERS[kind], value)


def _unknown(kind: object) -> PydanticCustomError:
    from ampspec.layers.catalog import LAYERS, LEFT_OUT

    expected, names = f"one of the {len(LAYERS)} kinds of layer", list(LAYERS)
    if isinstance(kind, str) and kind in LEFT_OUT:
        expected, names = f"{expected} ({kind} is not supported: {LEFT_OUT[kind]})", []
    context = {"expected": expected, "received": kind, "names": names}
    return PydanticCustomError("unknown_layer", "Input should be {expected}", context)


def _validate(entry: type[E], value: Mapping[str, Any]) -> E:
    try:
        return entry.model_validate(value)
    except ValidationError as error:
        raise ValidationError.from_exception_data(
            entry.__name__, [_located(details, entry) for details in error.errors()]
        ) from None


def _located(details: Any, entry: type[Entry]) -> InitErrorDetails:
    """Copy an error; for an unknown field, add the existing fields to its context."""
    context = details.get("ctx", {})
    if details["type"] == "extra_forbidden":
        kind = PydanticCustomError(
            "extra_forbidden", "Unknown field", {"fields": fields_at(details["loc"], entry)}
        )
        return InitErrorDetails(type=kind, loc=details["loc"], input=details["input"])
    return InitErrorDetails(
        type=details["type"], loc=details["loc"], input=details["input"], ctx=context
    )


LayerEntry = Annotated[
    Any,
    PlainValidator(parse_entry),
    WithJsonSchema(
        {
            "type": "object",
            "description": "A layer: GET /api/v1/layers lists every kind with its JSON schema.",
        }
    ),
]
"""A Layer or a Reuse."""
