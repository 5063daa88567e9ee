"""Dense layers, embeddings, and layers that pass their input on."""

import math
import re
from typing import Annotated

from pydantic import Field

from ampspec.layers.base import Elementwise, KernelLayer, Layer
from ampspec.layers.fields import Activation, Count, Number, SizeOr, Sizes, Units
from ampspec.layers.inference import Inference, Shape, ShapeError, require_vector
from ampspec.layers.weight_options import (
    GLOROT_UNIFORM,
    UNIFORM,
    ZEROS,
    ConstraintField,
    InitializerField,
    RegularizerField,
)

EQUATION = re.compile(r"(\.\.\.)?([a-zA-Z]+)(\.\.\.)?,([a-zA-Z]+)->(\.\.\.)?([a-zA-Z]+)(\.\.\.)?")


class Dense(KernelLayer):
    """A matrix product over the last axis, a bias and an activation."""

    units: Units
    """The size of the output; `classes`: the number of classes of the data."""
    activation: Activation | None = None

    def infer(self, *shapes: Shape) -> Inference:
        """[…, inputs] to […, units]."""
        [shape] = shapes
        require_vector(shape)
        *positions, width = shape
        units = int(self.units)
        bias = ((units,),) if self.use_bias else ()
        return Inference(
            (*positions, units),
            weights=((width, units), *bias),
            multiply_adds=math.prod(positions) * width * units,
            dimensions={"inputs": width, "units": units},
        )


class EinsumDense(Layer):
    """A product of the input and a kernel in Einstein notation; the first letter is the batch."""

    equation: str = Field(max_length=64, pattern=rf"^{EQUATION.pattern}$")
    """Such as `abc,cd->abd`, or `...x,xy->...y`."""
    output_shape: Annotated[tuple[int, ...], Sizes()]
    """The sizes of the letters of the output, without the batch and the axes of `...`."""
    activation: Activation | None = None
    bias_axes: str | None = Field(default=None, min_length=1, max_length=8, pattern="^[a-zA-Z]+$")
    """The axes of the output with a bias; null: no bias."""
    kernel_initializer: InitializerField = GLOROT_UNIFORM
    bias_initializer: InitializerField = ZEROS
    kernel_regularizer: RegularizerField = None
    bias_regularizer: RegularizerField = None
    kernel_constraint: ConstraintField = None
    bias_constraint: ConstraintField = None

    def infer(self, *shapes: Shape) -> Inference:
        """The sizes of all letters follow from the input and `output_shape`."""
        [shape] = shapes
        leading, operand, trailing, kernel, out_leading, result, out_trailing = self._parts()
        if (leading, trailing) != (out_leading, out_trailing) or (leading and trailing):
            raise self._mismatch("... on the same side of the input and of the output")
        if len(set(operand)) != len(operand) or len(set(result)) != len(result):
            raise self._mismatch("different letters for the axes of a tensor")
        if set(result) - set(operand) - set(kernel) or set(kernel) - set(operand) - set(result):
            raise self._mismatch("letters of the output that the input or the kernel has, and none")
        # The letters name the batch, too, unless `...` stands for it.
        letters = operand if leading else operand[1:]
        if not leading and result[0] != operand[0]:
            raise self._mismatch("the batch as the first letter of the input and of the output")
        elided_count = len(shape) - len(letters)
        if elided_count < 0 or (elided_count and not (leading or trailing)):
            raise self._mismatch(f"an equation for the input {list(shape)}")
        if leading and elided_count > 1:
            # Keras computes the shape with these axes in reverse order.
            raise self._mismatch(f"letters for all but one of the axes of {list(shape)}")
        sized = shape[elided_count:] if leading else shape[: len(letters)]
        sizes = dict(zip(letters, sized, strict=True))
        elided = shape[:elided_count] if leading else shape[len(letters) :]
        outputs = result if leading else result[1:]
        if len(self.output_shape) != len(outputs):
            raise ShapeError(
                "output_shape",
                expected=f"the sizes of {', '.join(outputs)}",
                received=str(list(self.output_shape)),
            )
        for letter, size in zip(outputs, self.output_shape, strict=True):
            if (known_size := sizes.setdefault(letter, size)) != size:
                raise ShapeError(
                    "output_shape", expected=f"{known_size} for {letter}", received=str(size)
                )
        if unknown := [letter for letter in kernel if letter not in sizes]:
            raise self._mismatch(f"a size for {', '.join(unknown)}: the kernel has no batch axis")
        output = tuple(sizes[letter] for letter in outputs)
        weights = [tuple(sizes[letter] for letter in kernel)]
        if self.bias_axes is not None:
            bias = self._bias_shape(self.bias_axes, outputs, sizes)
            weights.append((*bias, *(1,) * elided_count) if trailing else bias)
        return Inference(
            (*elided, *output) if leading else (*output, *elided),
            weights=tuple(weights),
            multiply_adds=math.prod(elided)
            * math.prod(map(sizes.__getitem__, {*letters, *kernel})),
        )

    def _parts(self) -> tuple[str, ...]:
        match = EQUATION.fullmatch(self.equation)
        assert match is not None, self.equation  # noqa: S101 - the field has this pattern
        return tuple(part or "" for part in match.groups())

    def _bias_shape(self, axes: str, outputs: str, sizes: dict[str, int]) -> Shape:
        if set(axes) - set(outputs):
            raise ShapeError(
                "bias_axes", expected=f"letters of the output {outputs}", received=axes
            )
        first = min(outputs.index(letter) for letter in axes)
        return tuple(sizes[letter] if letter in axes else 1 for letter in outputs[first:])

    def _mismatch(self, expected: str) -> ShapeError:
        return ShapeError("equation", expected=expected, received=self.equation)


class Embedding(Layer):
    """A table with a row of `output_dim` numbers for each of `input_dim` keys."""

    input_dim: Annotated[int | str, SizeOr("vocabulary", 2**31 - 1)]
    """The number of keys; `vocabulary`: the number of keys of the data."""
    output_dim: Count
    embeddings_initializer: InitializerField = UNIFORM
    embeddings_regularizer: RegularizerField = None
    embeddings_constraint: ConstraintField = None
    mask_zero: bool = False
    """Whether the layers after it skip the key 0."""

    def infer(self, *shapes: Shape) -> Inference:
        """[…] to […, output_dim]."""
        [shape] = shapes
        return Inference((*shape, self.output_dim), ((int(self.input_dim), self.output_dim),))


class Identity(Elementwise):
    """The input itself; gives a tensor a name."""


class Masking(Layer):
    """Makes the layers after it skip the steps whose numbers all equal `mask_value`."""

    mask_value: Number = 0.0

    def infer(self, *shapes: Shape) -> Inference:
        """The same shape."""
        require_vector(shapes[0])
        return Inference(shapes[0])
