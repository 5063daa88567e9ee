"""The three matrix products of a layer, each computed in a dtype of its own.

    y = x·w        forward           dx = dy·wᵀ   gradient of the inputs
    dw = xᵀ·dy     gradient of the weights

The same holds for a convolution. TensorFlow's products of 16-bit numbers add in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow as tf

from ampspec.precision.product_dtypes import ProductDtypes

Tensor = Any
Product = Callable[[Tensor, Tensor], Tensor]
"""A product of inputs and kernel, linear in each of them."""
Operand = Literal["inputs", "kernel", "output_gradient"]
InDtype = Callable[[Tensor, Operand, str], Tensor]
"""Converts an operand into the dtype of a product."""


def cast_operand(tensor: Tensor, operand: Operand, dtype: str) -> Tensor:
    """An operand in another dtype."""
    return tf.cast(tensor, dtype)


@dataclass(frozen=True)
class Products:
    """A product whose output and gradients are computed in separate dtypes.

    Args:
        product: The operation; it must be able to compute in all dtypes.
        dtypes: The dtype of each product.
        output_dtype: The dtype that the output is converted to.
    """

    product: Product
    dtypes: ProductDtypes
    output_dtype: str

    def __call__(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        """The output; the gradients that a tape computes through it have their own dtypes.

        Args:
            inputs: In the dtype of the layer.
            kernel: The weights themselves: a copy in 16 bits would round a float32 product.
        """

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def by_role(inputs: Tensor, kernel: Tensor) -> Any:
            def gradients(upstream: Tensor) -> tuple[Tensor, Tensor]:
                return self.gradients(inputs, kernel, upstream, cast_operand)

            return self.forward(inputs, kernel, cast_operand), gradients

        return by_role(inputs, kernel)

    def forward(self, inputs: Tensor, kernel: Tensor, in_dtype: InDtype) -> Tensor:
        """The output of the product, with its operands converted by `in_dtype`."""
        dtype = self.dtypes.forward
        output = self.product(in_dtype(inputs, "inputs", dtype), in_dtype(kernel, "kernel", dtype))
        return tf.cast(output, self.output_dtype)

    def gradients(
        self, inputs: Tensor, kernel: Tensor, upstream: Tensor, in_dtype: InDtype
    ) -> tuple[Tensor, Tensor]:
        """The gradients of the inputs and of the kernel, in the dtypes of these."""
        return (
            self._gradient("inputs", inputs, kernel, upstream, in_dtype),
            self._gradient("kernel", inputs, kernel, upstream, in_dtype),
        )

    def _gradient(
        self,
        of: Literal["inputs", "kernel"],
        inputs: Tensor,
        kernel: Tensor,
        upstream: Tensor,
        in_dtype: InDtype,
    ) -> Tensor:
        dtype = self.dtypes.input_gradient if of == "inputs" else self.dtypes.weight_gradient
        operands = {
            "inputs": in_dtype(inputs, "inputs", dtype),
            "kernel": in_dtype(kernel, "kernel", dtype),
        }
        # No gradient of a linear operation needs its output: the graph leaves this one out.
        with tf.GradientTape() as tape:
            tape.watch(operands[of])
            outputs = self.product(operands["inputs"], operands["kernel"])
        grad = tape.gradient(outputs, operands[of], in_dtype(upstream, "output_gradient", dtype))
        return tf.cast(grad, inputs.dtype if of == "inputs" else kernel.dtype)
