"""The types of fields that several layers have, with their bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

JsonSchema = dict[str, Any]

REQUIRED: Final = object()
"""The default of a field without one."""
MAX_WIDTH: Final = 1_048_576
MAX_WINDOW: Final = 1024
MAX_AXIS: Final = 8

Activation = Literal[
    "celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu",
    "hard_swish", "hard_tanh", "leaky_relu", "linear", "log_sigmoid", "log_softmax", "mish", "relu",
    "relu6", "selu", "sigmoid", "silu", "soft_shrink", "softmax", "softplus", "softsign",
    "sparse_plus", "sparse_sigmoid", "sparsemax", "squareplus", "swish", "tanh", "tanh_shrink",
]  # fmt: skip
"""The functions of keras.activations that keep the shape and need no arguments."""

LayerName = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
"""A name that Keras and TensorFlow accept; `/` separates the parts of a path."""
Padding = Literal["valid", "same"]
Count = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Epsilon = Annotated[float, Field(gt=0, le=1)]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]


def is_integer(value: object, low: int, high: int) -> bool:
    """Whether a value is an integer within bounds; True and False are not integers."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


@dataclass(frozen=True)
class _PlainField:
    """A field parsed by one function, so that errors point to the field itself."""

    def parse(self, value: object) -> Any:
        """The value of the field. Raises ValueError with what is expected."""
        raise NotImplementedError

    def json_schema(self) -> JsonSchema:
        """The JSON schema of the field."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchema:
        return self.json_schema()


@dataclass(frozen=True)
class PerAxis(_PlainField):
    """An integer for all of `axes` axes, or a list of one for each; parsed into a tuple."""

    axes: int
    low: int = 1
    high: int = MAX_WINDOW

    def parse(self, value: object) -> tuple[int, ...]:
        """One integer for each axis."""
        if is_integer(value, self.low, self.high):
            return (value,) * self.axes  # type: ignore[return-value]
        if (
            isinstance(value, list | tuple)
            and len(value) == self.axes
            and all(is_integer(item, self.low, self.high) for item in value)
        ):
            return tuple(value)
        listed = f", or a list of {self.axes} of them" if self.axes > 1 else ""
        raise ValueError(f"an integer from {self.low} to {self.high}{listed}")

    def json_schema(self) -> JsonSchema:
        """An integer or a list."""
        number = {"type": "integer", "minimum": self.low, "maximum": self.high}
        several = {"type": "array", "items": number, "minItems": self.axes, "maxItems": self.axes}
        return {"anyOf": [number, several]}


@dataclass(frozen=True)
class SizeOr(_PlainField):
    """An integer, or a word for a size that the data decides."""

    word: str
    high: int = MAX_WIDTH

    def parse(self, value: object) -> int | str:
        """The integer or the word."""
        if is_integer(value, 1, self.high) or value == self.word:
            return value  # type: ignore[return-value]
        raise ValueError(f"an integer from 1 to {self.high}, or {self.word!r}")

    def json_schema(self) -> JsonSchema:
        """An integer or the word."""
        number = {"type": "integer", "minimum": 1, "maximum": self.high}
        return {"anyOf": [number, {"type": "string", "enum": [self.word]}]}


@dataclass(frozen=True)
class AxisList(_PlainField):
    """An axis as Keras counts them (0 is the batch), or a list of several."""

    def parse(self, value: object) -> int | tuple[int, ...]:
        """The axis, or a tuple of them."""
        if is_integer(value, -MAX_AXIS, MAX_AXIS):
            return value  # type: ignore[return-value]
        if (
            isinstance(value, list | tuple)
            and 0 < len(value) <= MAX_AXIS
            and all(is_integer(axis, -MAX_AXIS, MAX_AXIS) for axis in value)
        ):
            return tuple(value)
        raise ValueError("an axis such as -1, or a list of axes")

    def json_schema(self) -> JsonSchema:
        """An integer or a list."""
        number = {"type": "integer", "minimum": -MAX_AXIS, "maximum": MAX_AXIS}
        several = {"type": "array", "items": number, "minItems": 1, "maxItems": MAX_AXIS}
        return {"anyOf": [number, several]}


@dataclass(frozen=True)
class BeforeAfter(_PlainField):
    """Positions added or removed before and after each of `axes` axes.

    An integer for all of them, a list of one integer for each axis, or a list of pairs; for one
    axis an integer or a pair.
    """

    axes: int
    high: int = MAX_WINDOW

    def parse(self, value: object) -> tuple[tuple[int, int], ...]:
        """A pair for each axis."""
        if is_integer(value, 0, self.high):
            return ((value, value),) * self.axes  # type: ignore[return-value]
        if isinstance(value, list | tuple):
            entries = [value] if self.axes == 1 and not _nested(value) else list(value)
            pairs = [(entry, entry) if isinstance(entry, int) else entry for entry in entries]
            if len(pairs) == self.axes and all(map(self._is_pair, pairs)):
                return tuple((left_edge, right_edge) for left_edge, right_edge in pairs)
        raise ValueError(
            f"an integer from 0 to {self.high}, or a pair [before, after] of them"
            + (f" for each of the {self.axes} axes" if self.axes > 1 else "")
        )

    def _is_pair(self, value: object) -> bool:
        return (
            isinstance(value, list | tuple)
            and len(value) == 2
            and all(is_integer(size, 0, self.high) for size in value)
        )

    def json_schema(self) -> JsonSchema:
        """An integer, a list, or a list of pairs."""
        number = {"type": "integer", "minimum": 0, "maximum": self.high}
        pair = {"type": "array", "items": number, "minItems": 2, "maxItems": 2}
        if self.axes == 1:
            return {"anyOf": [number, pair]}
        several = {"anyOf": [number, pair]}
        length = {"minItems": self.axes, "maxItems": self.axes}
        return {"anyOf": [number, {"type": "array", "items": several, **length}]}


@dataclass(frozen=True)
class Sizes(_PlainField):
    """A list of sizes; with `low` -1, one size may be -1 and follows from the others."""

    low: int = 1
    high: int = MAX_WIDTH
    length: int = MAX_AXIS

    def parse(self, value: object) -> tuple[int, ...]:
        """The sizes as a tuple; one integer counts as a list of one."""
        entries = [value] if isinstance(value, int) else value
        if (
            isinstance(entries, list | tuple)
            and 0 < len(entries) <= self.length
            and all(self._is_size(size) for size in entries)
        ):
            return tuple(entries)
        wildcard = ", one of which may be -1" if self.low < 0 else ""
        raise ValueError(f"a list of 1 to {self.length} integers from 1 to {self.high}{wildcard}")

    def _is_size(self, value: object) -> bool:
        return is_integer(value, self.low, self.high) and value != 0

    def json_schema(self) -> JsonSchema:
        """A list of integers."""
        number = {"type": "integer", "minimum": self.low, "maximum": self.high}
        return {"type": "array", "items": number, "minItems": 1, "maxItems": self.length}


@dataclass(frozen=True)
class Numbers(_PlainField):
    """A number, or a list of numbers."""

    length: int = 65_536
    listed: bool = False
    """Whether a single number is refused."""

    def parse(self, value: object) -> float | tuple[float, ...]:
        """The number, or a tuple."""
        if not self.listed and _is_number(value):
            return float(value)  # type: ignore[arg-type]
        if (
            isinstance(value, list | tuple)
            and 0 < len(value) <= self.length
            and all(map(_is_number, value))
        ):
            return tuple(map(float, value))
        listed = f"a list of 1 to {self.length} numbers"
        raise ValueError(listed if self.listed else f"a number, or {listed}")

    def json_schema(self) -> JsonSchema:
        """A number or a list."""
        number = {"type": "number"}
        several = {"type": "array", "items": number, "minItems": 1, "maxItems": self.length}
        return several if self.listed else {"anyOf": [number, several]}


def _nested(value: Sequence[object]) -> bool:
    return any(isinstance(item, list | tuple) for item in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e30


Filters = Annotated[int | str, SizeOr("classes")]
Units = Annotated[int | str, SizeOr("classes")]
Axes = Annotated[int | tuple[int, ...], AxisList()]
Axis = Annotated[int, Field(ge=-MAX_AXIS, le=MAX_AXIS)]


@dataclass(frozen=True)
class AxisField:
    """A field with an entry for each spatial axis of a layer.

    Attributes:
        entry: The default of each axis; without one, the field is required.
        parser: From the number of axes to what parses the entries.
        nullable: Whether the field is null by default.
    """

    entry: object = REQUIRED
    parser: Callable[[int], PerAxis | BeforeAfter] = PerAxis
    nullable: bool = False

    def of_rank(self, rank: int) -> tuple[Any, Any]:
        """The annotation and the default of the field for so many spatial axes."""
        annotation: Any = Annotated[tuple[Any, ...], self.parser(rank)]
        if self.nullable:
            return annotation | None, None
        return annotation, REQUIRED if self.entry is REQUIRED else (self.entry,) * rank
