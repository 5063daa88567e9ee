"""The initializers, regularizers and constraints that a spec can name."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

from pydantic import BeforeValidator, ConfigDict, Field, model_serializer, model_validator
from pydantic_core import PydanticKnownError

from ampspec.documents.base import SpecModel
from ampspec.layers.fields import Axes

Positive = Annotated[float, Field(gt=0, le=1e6)]
Strength = Annotated[float, Field(ge=0, le=1e6)]
Value = Annotated[float, Field(ge=-1e6, le=1e6)]


class WeightOption(SpecModel):
    """A Keras class by its snake-case name, with optional arguments."""

    model_config = ConfigDict(defer_build=True)

    arguments: ClassVar[dict[str, tuple[str, ...]]]
    """By name, the arguments that the class takes."""
    name: str

    @model_validator(mode="after")
    def _arguments_belong_to_name(self) -> Self:
        taken = self.arguments[self.name]
        unsupported = type(self).model_fields.keys() - {"name", *taken}
        if unknown := sorted(name for name in unsupported if getattr(self, name) is not None):
            expected = f"{self.name} with {', '.join(taken) or 'no arguments'}"
            raise ValueError(f"{expected}, not with {', '.join(unknown)}")
        return self

    @model_serializer(mode="plain")
    def _serialize(self) -> Any:
        arguments = self.given_arguments
        return {"name": self.name, **arguments} if arguments else self.name

    @property
    def given_arguments(self) -> dict[str, Any]:
        """The arguments that differ from Keras's defaults."""
        values = {name: getattr(self, name) for name in self.arguments[self.name]}
        return {name: value for name, value in values.items() if value is not None}


class Initializer(WeightOption):
    """The initial values of a weight; random values depend on the job's seed."""

    arguments: ClassVar[dict[str, tuple[str, ...]]] = {
        "constant": ("value",),
        "glorot_normal": (),
        "glorot_uniform": (),
        "he_normal": (),
        "he_uniform": (),
        "lecun_normal": (),
        "lecun_uniform": (),
        "ones": (),
        "orthogonal": ("gain",),
        "random_normal": ("mean", "stddev"),
        "random_uniform": ("minval", "maxval"),
        "truncated_normal": ("mean", "stddev"),
        "variance_scaling": ("scale", "mode", "distribution"),
        "zeros": (),
    }
    name: Literal[
        "constant", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal",
        "lecun_uniform", "ones", "orthogonal", "random_normal", "random_uniform",
        "truncated_normal", "variance_scaling", "zeros",
    ]  # fmt: skip
    value: Value | None = None
    mean: Value | None = None
    stddev: Positive | None = None
    minval: Value | None = None
    maxval: Value | None = None
    gain: Positive | None = None
    scale: Positive | None = None
    mode: Literal["fan_in", "fan_out", "fan_avg"] | None = None
    distribution: Literal["normal", "truncated_normal", "untruncated_normal", "uniform"] | None = (
        None
    )


class Regularizer(WeightOption):
    """A penalty on a weight, added to the training loss."""

    arguments: ClassVar[dict[str, tuple[str, ...]]] = {
        "l1": ("l1",),
        "l1_l2": ("l1", "l2"),
        "l2": ("l2",),
        "orthogonal_regularizer": ("factor", "mode"),
    }
    name: Literal["l1", "l1_l2", "l2", "orthogonal_regularizer"]
    l1: Strength | None = None
    l2: Strength | None = None
    factor: Strength | None = None
    mode: Literal["rows", "columns"] | None = None


class Constraint(WeightOption):
    """A projection of a weight after each update that is not skipped."""

    arguments: ClassVar[dict[str, tuple[str, ...]]] = {
        "max_norm": ("max_value", "axis"),
        "min_max_norm": ("min_value", "max_value", "rate", "axis"),
        "non_neg": (),
        "unit_norm": ("axis",),
    }
    name: Literal["max_norm", "min_max_norm", "non_neg", "unit_norm"]
    max_value: Strength | None = None
    min_value: Strength | None = None
    rate: Annotated[float, Field(ge=0, le=1)] | None = None
    axis: Axes | None = None


def _named_option(option: type[WeightOption]) -> BeforeValidator:
    """Expand a name into an object, so that an unknown name is an error of the field itself."""
    names = get_args(option.model_fields["name"].annotation)
    expected = f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}"

    def parse(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value not in names:
            raise PydanticKnownError("literal_error", {"expected": expected})
        return {"name": value}

    return BeforeValidator(parse, json_schema_input_type=Literal[names] | option)


InitializerField = Annotated[Initializer, _named_option(Initializer)]
RegularizerField = Annotated[Regularizer | None, _named_option(Regularizer)]
ConstraintField = Annotated[Constraint | None, _named_option(Constraint)]

GLOROT_UNIFORM: Final = Initializer(name="glorot_uniform")
ORTHOGONAL: Final = Initializer(name="orthogonal")
UNIFORM: Final = Initializer(name="random_uniform")
ZEROS: Final = Initializer(name="zeros")
ONES: Final = Initializer(name="ones")
