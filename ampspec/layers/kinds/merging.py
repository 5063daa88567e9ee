"""Layers that merge several inputs into one output."""

from typing import Annotated, Any, ClassVar, Final

from ampspec.layers.base import MAX_INPUTS, Layer
from ampspec.layers.fields import MAX_AXIS, Axis, PerAxis
from ampspec.layers.inference import Inference, Shape, ShapeError, axis_index, broadcast

SEVERAL: Final = (2, MAX_INPUTS)


class _Merge(Layer):
    input_count: ClassVar[tuple[int, int]] = SEVERAL
    input_list: ClassVar[bool] = True

    def infer(self, *shapes: Shape) -> Inference:
        """The shape of the inputs; a size of 1 is repeated."""
        return Inference(broadcast(shapes))


class Add(_Merge):
    """The sum of its inputs."""


class Subtract(_Merge):
    """The first input minus the second."""

    input_count: ClassVar[tuple[int, int]] = (2, 2)


class Multiply(_Merge):
    """The product of its inputs, number by number."""


class Average(_Merge):
    """The mean of its inputs, number by number."""


class Maximum(_Merge):
    """The largest of its inputs, number by number."""


class Minimum(_Merge):
    """The smallest of its inputs, number by number."""


class Concatenate(_Merge):
    """Its inputs one after the other along an axis."""

    axis: Axis = -1

    def infer(self, *shapes: Shape) -> Inference:
        """The sizes of the axis are added; the others are the same."""
        index = axis_index(self.axis, shapes[0])
        other_sizes = {(*shape[:index], *shape[index + 1 :]) for shape in shapes}
        if len(other_sizes) > 1 or len({len(shape) for shape in shapes}) > 1:
            raise ShapeError(
                "inputs",
                expected=f"inputs that differ in axis {self.axis} only",
                received=" and ".join(str(list(shape)) for shape in shapes),
            )
        total = sum(shape[index] for shape in shapes)
        return Inference((*shapes[0][:index], total, *shapes[0][index + 1 :]))


class Dot(Layer):
    """The dot products of two inputs along an axis of each."""

    input_count: ClassVar[tuple[int, int]] = (2, 2)
    input_list: ClassVar[bool] = True
    axes: Annotated[tuple[int, ...], PerAxis(2, -MAX_AXIS, MAX_AXIS)]
    """One axis for both inputs, or a list with one axis for each; the batch is axis 0."""
    normalize: bool = False
    """Whether the products are cosines."""

    def infer(self, *shapes: Shape) -> Inference:
        """The other axes of the first input, then those of the second."""
        outer_shapes: list[Shape] = []
        sizes = []
        for axis, shape in zip(self.axes, shapes, strict=True):
            index = axis_index(axis, shape, "axes")
            sizes.append(shape[index])
            outer_shapes.append((*shape[:index], *shape[index + 1 :]))
        if sizes[0] != sizes[1]:
            raise ShapeError(
                "axes", expected="axes of the same size", received=f"{sizes[0]} and {sizes[1]}"
            )
        output = (*outer_shapes[0], *outer_shapes[1]) or (1,)
        products = sizes[0]
        for size in output:
            products *= size
        return Inference(output, multiply_adds=products)

    @property
    def keras_arguments(self) -> dict[str, Any]:
        """Keras counts negative axes from the end only as a single number."""
        arguments = super().keras_arguments
        first, second = self.axes
        return {**arguments, "axes": first if first == second else self.axes}
