"""Recurrent layers over [steps, features], and convolutional ones over sequences of images."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import PlainSerializer, PlainValidator
from pydantic_core import PydanticKnownError

from ampspec.layers.base import SPATIAL_AXES, AxisFields, Layer, default_name
from ampspec.layers.fields import Activation, Count, Padding, Rate
from ampspec.layers.inference import (
    Inference,
    Shape,
    ShapeError,
    require_rank,
    require_strides_or_dilation,
    window_positions,
)
from ampspec.layers.kinds.convolution import KERNEL_FIELDS
from ampspec.layers.weight_options import (
    GLOROT_UNIFORM,
    ORTHOGONAL,
    ZEROS,
    ConstraintField,
    InitializerField,
    RegularizerField,
)

SAVED_PER_UNIT: Final = {"LSTM": 6, "GRU": 4, "SimpleRNN": 1}
"""The values that a unit saves at each step: its gates, an LSTM's cell state, its output."""


def count_recurrent_activations(kind: str, steps: int, units: int) -> int:
    """The number of values that a recurrent layer saves for the backward pass."""
    return steps * SAVED_PER_UNIT[kind] * units


class _RecurrentOptions(Layer):
    activation: Activation = "tanh"
    use_bias: bool = True
    kernel_initializer: InitializerField = GLOROT_UNIFORM
    recurrent_initializer: InitializerField = ORTHOGONAL
    bias_initializer: InitializerField = ZEROS
    kernel_regularizer: RegularizerField = None
    recurrent_regularizer: RegularizerField = None
    bias_regularizer: RegularizerField = None
    kernel_constraint: ConstraintField = None
    recurrent_constraint: ConstraintField = None
    bias_constraint: ConstraintField = None
    dropout: Rate = 0.0
    recurrent_dropout: Rate = 0.0
    return_sequences: bool = False
    """Whether the output has every step, not only the last one."""
    go_backwards: bool = False


class _Recurrent(_RecurrentOptions):
    units: Count
    cell: ClassVar[str]
    gates: ClassVar[int]

    def infer(self, *shapes: Shape) -> Inference:
        """[steps, features] to [units], or to [steps, units] with return_sequences."""
        require_rank(shapes[0], "steps, features")
        steps, width = shapes[0]
        units, gates = self.units, self.gates * self.units
        kernels = ((width, gates), (units, gates))
        return Inference(
            (steps, units) if self.return_sequences else (units,),
            weights=(*kernels, self._bias_shape(gates)) if self.use_bias else kernels,
            multiply_adds=steps * gates * (width + units),
            saved_activations=count_recurrent_activations(self.layer, steps, units),
            dimensions={"inputs": width, "units": units},
            parts=(self.cell,),
        )

    def _bias_shape(self, gates: int) -> Shape:
        return (gates,)


class LSTM(_Recurrent):
    """Long short-term memory. Source: Hochreiter and Schmidhuber 1997."""

    cell: ClassVar[str] = "lstm_cell"
    gates: ClassVar[int] = 4
    recurrent_activation: Activation = "sigmoid"
    unit_forget_bias: bool = True


class GRU(_Recurrent):
    """Gated recurrent units. Source: Cho et al. 2014, arXiv:1406.1078."""

    cell: ClassVar[str] = "gru_cell"
    gates: ClassVar[int] = 3
    recurrent_activation: Activation = "sigmoid"
    reset_after: bool = True
    """Whether the reset gate is applied after the matrix product, as cuDNN does."""

    def _bias_shape(self, gates: int) -> Shape:
        return (2, gates) if self.reset_after else (gates,)


class SimpleRNN(_Recurrent):
    """A dense layer over the input and its own last output."""

    cell: ClassVar[str] = "simple_rnn_cell"
    gates: ClassVar[int] = 1


def _parse_inner(value: object) -> "LSTM | GRU | SimpleRNN":
    """Parse a recurrent layer, so that errors point to its fields."""
    if isinstance(value, LSTM | GRU | SimpleRNN):
        return value
    if not isinstance(value, Mapping):
        raise PydanticKnownError("dict_type")
    kinds: dict[object, type[LSTM | GRU | SimpleRNN]] = {
        "LSTM": LSTM,
        "GRU": GRU,
        "SimpleRNN": SimpleRNN,
    }
    if not isinstance(kind := value.get("layer"), str) or kind not in kinds:
        raise ValueError("a layer LSTM, GRU or SimpleRNN")
    return kinds[kind].model_validate(value)


class Bidirectional(Layer):
    """A recurrent layer, and a second one that reads the sequence backwards."""

    of: Annotated[
        LSTM | GRU | SimpleRNN,
        PlainValidator(_parse_inner, json_schema_input_type=LSTM | GRU | SimpleRNN),
        PlainSerializer(lambda inner: inner.model_dump(mode="json")),
    ]
    """The recurrent layer, without a name and inputs: LSTM, GRU or SimpleRNN."""
    merge_mode: Literal["concat", "sum", "mul", "ave"] = "concat"
    """How the two outputs are merged."""

    def infer(self, *shapes: Shape) -> Inference:
        """The output of the layer; with concat it is twice as wide."""
        for field in ("name", "inputs"):
            if getattr(self.of, field) is not None:
                raise ShapeError(
                    f"of/{field}", expected="no value: the layer inside has none", received="one"
                )
        if self.of.go_backwards:
            raise ShapeError(
                "of/go_backwards", expected="false: it is the second layer's", received="true"
            )
        inner = self.of.infer(*shapes)
        *steps, units = inner.output
        paths = tuple(f"{way}_{default_name(self.of.layer)}" for way in ("forward", "backward"))
        return Inference(
            (*steps, 2 * units if self.merge_mode == "concat" else units),
            weights=inner.weights * 2,
            multiply_adds=2 * inner.multiply_adds,
            saved_activations=2 * (inner.saved_activations or 0),
            dimensions=inner.dimensions,
            parts=tuple(part for path in paths for part in (path, f"{path}/{self.of.cell}")),
        )

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """Keras calls the layer inside `layer`."""
        arguments = super().keras_arguments
        return {"layer": arguments.pop("of"), **arguments}


class _ConvLSTM(_RecurrentOptions):
    axis_fields: ClassVar[AxisFields] = KERNEL_FIELDS
    filters: Count
    kernel_size: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Padding = "valid"
    dilation_rate: tuple[int, ...]
    recurrent_activation: Activation = "sigmoid"
    unit_forget_bias: bool = True

    def infer(self, *shapes: Shape) -> Inference:
        """[steps, …, channels] to [positions…, filters], with all steps on request."""
        require_rank(shapes[0], f"steps, {SPATIAL_AXES[self.rank].replace('steps', 'length')}")
        steps, *size, channels = shapes[0]
        require_strides_or_dilation(self.strides, self.dilation_rate)
        positions = window_positions(
            tuple(size), self.kernel_size, self.strides, self.padding, self.dilation_rate
        )
        gates = 4 * self.filters
        kernels = ((*self.kernel_size, channels, gates), (*self.kernel_size, self.filters, gates))
        output = (*positions, self.filters)
        return Inference(
            (steps, *output) if self.return_sequences else output,
            weights=(*kernels, (gates,)) if self.use_bias else kernels,
            multiply_adds=steps * math.prod(positions) * sum(map(math.prod, kernels)),
            saved_activations=steps * SAVED_PER_UNIT["LSTM"] * math.prod(output),
            dimensions={"filters": self.filters},
            parts=("conv_lstm_cell",),
        )


class ConvLSTM1D(_ConvLSTM, rank=1):
    """A convolutional LSTM over [steps, length, channels]. Source: Shi et al. 2015."""


class ConvLSTM2D(_ConvLSTM, rank=2):
    """A convolutional LSTM over [steps, height, width, channels]. Source: Shi et al. 2015."""


class ConvLSTM3D(_ConvLSTM, rank=3):
    """A convolutional LSTM over [steps, depth, height, width, channels]."""
