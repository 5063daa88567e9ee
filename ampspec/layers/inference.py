"""Shape inference: the output shape, weights and arithmetic of a layer from its input shapes.

All shapes are of one example, without the batch axis.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

Shape = tuple[int, ...]

MAX_RANK: Final = 6
"""Maximum number of output axes without the batch; a ConvLSTM3D has five."""
MAX_OUTPUT_SIZE: Final = 2**31 - 1
"""Maximum number of values that a layer computes for one example."""
MAX_PARAMETERS: Final = 2**33
"""Maximum number of weights of a network: 32 GiB in float32, without gradients and optimizer."""


class ShapeError(ValueError):
    """A layer cannot take its inputs; `field` is the part of the layer to change."""

    def __init__(self, field: str, *, expected: str, received: str) -> None:
        self.field, self.expected, self.received = field, expected, received
        super().__init__(f"{field}: expected {expected}; received {received}")


@dataclass(frozen=True)
class Inference:
    """The shapes and the work of a layer for known inputs."""

    output: Shape
    weights: tuple[Shape, ...] = ()
    """The shapes of the trainable weights, in the order of Keras's `layer.weights`."""
    state: tuple[Shape, ...] = ()
    """The shapes of the weights that training does not touch, such as a moving mean."""
    multiply_adds: int = 0
    """Multiply-adds of its matrix products in a forward pass over one example."""
    saved_activations: int | None = None
    """The number of values saved for the backward pass; None: the size of the output."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """By name, the dimensions of its matrix products that are set by fields of the layer."""
    parts: tuple[str, ...] = ()
    """The paths of the Keras layers inside it, relative to its own path."""

    @property
    def parameters(self) -> int:
        """All weights."""
        return count_parameters(self.weights) + count_parameters(self.state)


def count_parameters(shapes: Sequence[Shape]) -> int:
    """The numbers in weights of these shapes."""
    return sum(map(math.prod, shapes))


def require_rank(shape: Shape, axes: str) -> None:
    """Raise ShapeError unless a shape has the named axes, such as "height, width, channels"."""
    if len(shape) != axes.count(",") + 1:
        raise ShapeError("inputs", expected=f"an input [{axes}]", received=str(list(shape)))


def require_vector(shape: Shape) -> None:
    """Raise ShapeError for a scalar per example."""
    if not shape:
        raise ShapeError("inputs", expected="an input with at least one axis", received="[]")


def require_strides_or_dilation(strides: Shape, dilation: Shape) -> None:
    """Raise ShapeError for a window with strides and dilation, which Keras refuses."""
    if max(strides) > 1 and max(dilation) > 1:
        raise ShapeError(
            "dilation_rate", expected="1, as strides are above 1", received=str(list(dilation))
        )


def axis_index(axis: int, shape: Shape, field: str = "axis") -> int:
    """The index in `shape` of an axis as Keras counts them: the batch is 0, the last -1."""
    index = axis - 1 if axis > 0 else axis + len(shape)
    if axis == 0 or not 0 <= index < len(shape):
        raise ShapeError(
            field,
            expected=f"an axis of the input {list(shape)}: 1 to {len(shape)}, or -1 to "
            f"-{len(shape)} (the batch is axis 0)",
            received=str(axis),
        )
    return index


def axis_indices(axis: int | Sequence[int], shape: Shape, field: str = "axis") -> tuple[int, ...]:
    """The indices of one axis or several different ones, in ascending order."""
    axes = (axis,) if isinstance(axis, int) else axis
    indices = tuple(axis_index(position, shape, field) for position in axes)
    if len(set(indices)) != len(indices):
        raise ShapeError(field, expected="different axes", received=str(list(axes)))
    return tuple(sorted(indices))


def window_positions(  # noqa: PLR0917 - the arguments of a convolution
    size: Shape,
    window: Shape,
    strides: Shape,
    padding: str,
    dilation: Shape | None = None,
    field: str = "kernel_size",
) -> Shape:
    """The positions of a window along each axis.

    Raises ShapeError for a window that does not fit.
    """
    spans = [
        rate * (width - 1) + 1
        for width, rate in zip(window, dilation or (1,) * len(window), strict=True)
    ]
    if padding != "valid":
        return tuple(-(-length // step) for length, step in zip(size, strides, strict=True))
    if any(span > length for length, span in zip(size, spans, strict=True)):
        raise ShapeError(
            field,
            expected=f"a window that fits into the input {list(size)}, or padding: same",
            received=str(spans),
        )
    return tuple(
        (length - span) // step + 1 for length, span, step in zip(size, spans, strides, strict=True)
    )


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape of an elementwise operation on inputs of the same rank.

    Raises ShapeError for shapes that do not fit together.
    """
    if len({len(shape) for shape in shapes}) > 1 or any(
        len({size for size in sizes if size != 1}) > 1 for sizes in zip(*shapes, strict=False)
    ):
        raise ShapeError(
            "inputs",
            expected="inputs of the same shape (a size of 1 is repeated)",
            received=" and ".join(str(list(shape)) for shape in shapes),
        )
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))
