"""Lets Keras layers compute their matrix products by role.

Dense, EinsumDense and the convolutions: Keras calls their product in `call`, which is replaced for
one layer object. Its config and its weights stay, so that a saved model needs only Keras.
"""

from dataclasses import dataclass
from typing import Any, Final, cast

import keras
import tensorflow as tf

from ampcore.keras_internals import flatten_layers, without_autocast
from ampcore.precision.layers.float8_products import Float8Products, Float8Scaling
from ampcore.precision.layers.products import Product, Products
from ampspec.precision.product_dtypes import ProductDtypes

Layer = Any
Tensor = Any

CONVOLUTIONS: Final = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
LAYERS: Final = (keras.layers.Dense, keras.layers.EinsumDense, *CONVOLUTIONS)
"""The layers whose products can be computed by role."""
_INSTALLED: Final = "_ampcore_products"
"""The attribute of a layer that holds its products."""
_CASTS: Final = "_ampcore_casts"
"""The attribute of a layer whose outputs are cast."""


def has_own_call(layer: Layer) -> bool:
    """Whether a subclass of one of these layers, or a quantized one, computes in its own way."""
    of_keras = [kind for kind in LAYERS if isinstance(layer, kind)]
    if not of_keras:
        return False
    return (
        type(layer).call not in {kind.call for kind in of_keras}
        or getattr(layer, "quantization_mode", None) is not None
        or getattr(layer, "lora_enabled", False)
    )


@dataclass(frozen=True)
class LayerProducts:
    """A layer, and the products that replace its own."""

    layer: Layer
    products: Products | Float8Products

    @classmethod
    def of(
        cls,
        layer: Layer,
        dtypes: ProductDtypes,
        compute_dtype: str,
        scaling: Float8Scaling | None = None,
    ) -> "LayerProducts":
        """The products of a layer in these dtypes, with outputs in `compute_dtype`.

        `scaling` has the scales of products in float8.
        """
        products = Products(_product_of(layer), dtypes, compute_dtype)
        return cls(layer, products if scaling is None else Float8Products(products, scaling))

    def install(self) -> None:
        """Compute the layer's products by role from now on."""
        # As in `replaced_calls`.
        self.layer.__dict__.update({"call": self.call, _INSTALLED: self})

    @property
    def scaling(self) -> Float8Scaling | None:
        """The scales of products in float8."""
        return self.products.scaling if isinstance(self.products, Float8Products) else None

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        """What Keras computes in the layer's `call`, with other products."""
        layer = self.layer
        if getattr(layer, "padding", None) == "causal":
            inputs = keras.ops.pad(inputs, layer._compute_causal_padding())
        outputs = self.products(inputs, _values_of(layer.kernel))
        if layer.bias is not None:
            outputs = keras.ops.add(outputs, _bias(layer))
        return outputs if layer.activation is None else layer.activation(outputs)


def has_installed_call(layer: Layer) -> bool:
    """Whether a policy has replaced the layer's call for good."""
    return "call" in vars(layer) and (_INSTALLED in vars(layer) or _CASTS in vars(layer))


def install_cast(layer: Layer, call: Any) -> None:
    """Replace a layer's call for good by one that casts its outputs."""
    layer.__dict__.update({"call": call, _CASTS: True})


def remove_installed_call(layer: Layer) -> None:
    """Compute again as the layer's class does."""
    for name in ("call", _INSTALLED, _CASTS):
        layer.__dict__.pop(name, None)


def installed_products(model: Any) -> list[LayerProducts]:
    """The products that were installed in the layers of a model."""
    # Keras has no public attribute for all layers inside; it finds each layer once.
    installed = (vars(layer).get(_INSTALLED) for layer in flatten_layers(model))
    return [products for products in installed if products is not None]


def _product_of(layer: Layer) -> Product:
    if isinstance(layer, keras.layers.Dense):
        return cast(Product, keras.ops.matmul)
    if isinstance(layer, keras.layers.EinsumDense):
        return lambda inputs, kernel: keras.ops.einsum(layer.equation, inputs, kernel)
    if layer.padding != "causal":
        return cast(Product, layer.convolution_op)
    return lambda inputs, kernel: keras.ops.conv(
        inputs,
        kernel,
        strides=list(layer.strides),
        padding="valid",
        dilation_rate=layer.dilation_rate,
        data_format=layer.data_format,
    )


def _values_of(kernel: Any) -> Tensor:
    """The kernel in its own dtype: Keras converts variables to the layer's dtype in its calls."""
    with without_autocast(kernel):
        return tf.convert_to_tensor(kernel.value)


def _bias(layer: Layer) -> Tensor:
    if not isinstance(layer, CONVOLUTIONS):
        return layer.bias
    ones = (1,) * layer.rank
    last = layer.data_format == "channels_last"
    shape = (1, *ones, layer.filters) if last else (1, layer.filters, *ones)
    return keras.ops.reshape(layer.bias, shape)
