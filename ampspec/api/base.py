"""Shared by the models of the API: base classes, numbers, open enumerations."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError, to_jsonable_python

from ampspec.documents.json_limits import check_json
from ampspec.jobs.states import Reason, Source, State

NON_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""The non-finite numbers, which JSON writes as strings."""


def parse_non_finite(value: Any) -> Any:
    """`value` with every "NaN", "Infinity" and "-Infinity" in it as a float."""
    match value:
        case str():
            return NON_FINITE.get(value, value)
        case dict():
            return {key: parse_non_finite(item) for key, item in value.items()}
        case list():
            return [parse_non_finite(item) for item in value]
    return value


Number = Annotated[
    float,
    WithJsonSchema(
        {"anyOf": [{"type": "number"}, {"enum": list(NON_FINITE), "type": "string"}]},
    ),
]
"""A float; non-finite numbers are strings in JSON."""

JsonObject = Annotated[dict[str, Any], AfterValidator(check_json), AfterValidator(parse_non_finite)]
"""A JSON object within the limits of `ampspec.documents.json_limits`.

Its non-finite numbers are floats in Python and strings in JSON.
"""

JsonValues = Annotated[list[Any], AfterValidator(check_json), AfterValidator(parse_non_finite)]
"""A JSON list, with the same limits and the same treatment of non-finite numbers."""


class UnknownState(str):
    """A state that only a newer server knows; has the properties of `State`."""

    is_active: ClassVar[bool] = False
    is_terminal: bool

    def __new__(cls, text: str, *, is_terminal: bool = False) -> Self:
        """The state with this name; `is_terminal` says whether a job in it has ended."""
        state = super().__new__(cls, text)
        state.is_terminal = is_terminal
        return state


def _parse_state(value: State | str) -> State | UnknownState:
    return value if isinstance(value, State | UnknownState) else UnknownState(value)


# A newer worker or server may write codes that this version does not know.
if TYPE_CHECKING:
    AnyState = State | UnknownState
else:
    AnyState = Annotated[
        State | str, Field(union_mode="left_to_right"), AfterValidator(_parse_state)
    ]
AnySource = Annotated[Source | str, Field(union_mode="left_to_right")]
AnyReason = Annotated[Reason | str, Field(union_mode="left_to_right")]


def open_enum(*names: str) -> WithJsonSchema:
    """The schema of a string with these known values; newer versions may add more."""
    return WithJsonSchema({"enum": list(names), "type": "string"})


class ApiModel(BaseModel):
    """An immutable part of a response."""

    model_config = ConfigDict(
        frozen=True,
        from_attributes=True,
        ser_json_inf_nan="strings",
    )

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Parse a JSON document, and keep fields that only a newer server knows.

        Raises ValueError for an invalid document.
        """
        return cls.model_validate(document, extra="allow")

    def to_json(self) -> dict[str, Any]:
        """The JSON document that the model was parsed from.

        Fields that the server left out are left out; fields that only a newer server knows are
        kept.
        """
        document: dict[str, Any] = _jsonable(self)
        return document


class RequestModel(BaseModel):
    """The body of a request, without unknown fields.

    A field that was renamed has both names as its `validation_alias`, AliasChoices with the old
    one last. A body with both is refused by a message of its own: without it, pydantic would take
    the old name for an unknown field.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_two_names(cls, document: Any) -> Any:
        for field in cls.model_fields.values():
            if isinstance(document, dict) and isinstance(field.validation_alias, AliasChoices):
                names = [name for name in field.validation_alias.choices if name in document]
                if len(names) > 1:
                    raise PydanticCustomError(
                        "two_names",
                        "either '{name}' or '{old_name}', which is its old name: send one of them",
                        {"name": names[0], "old_name": names[1]},
                    )
        return document


class StoredModel(ApiModel):
    """Read from a database row, which may be damaged or written by a newer version."""

    unreadable: list[str] = Field(
        default_factory=list,
        exclude_if=lambda names: not names,
        description="The fields whose stored values cannot be read; they are null or empty here. "
        "Left out if there are none.",
    )


def _jsonable(value: Any) -> Any:
    match value:
        case BaseModel():
            fields = type(value).model_fields
            set_values = {
                fields[name].alias or name: getattr(value, name)
                for name in fields
                if name in value.model_fields_set
            }
            return _jsonable({**set_values, **(value.model_extra or {})})
        case Mapping():
            return {key: _jsonable(item) for key, item in value.items()}
        case str():
            return str(value)
        case Sequence():
            return [_jsonable(item) for item in value]
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return to_jsonable_python(value)
