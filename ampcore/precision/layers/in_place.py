"""Dtypes of the layers of a model: set for good, or in effect only while the model is called.

The model that was given is trained itself. A copy that is made from configs would lose whatever is
not in a config: adapted statistics, lookup tables, frozen layers, functions without a name.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final

import keras
import tensorflow as tf

from ampcore.keras_internals import DTYPE_POLICY, flatten_layers, replaced_methods
from ampcore.precision.layers.layer_products import (
    LayerProducts,
    has_installed_call,
    install_cast,
    remove_installed_call,
)
from ampspec.precision.precision import DTYPES_OF_16_BITS

Layer = Any
Model = Any

COMPILED_FUNCTIONS: Final = ("train_function", "test_function", "predict_function")
"""The attributes of a model that hold what Keras has traced with the dtypes of before."""


@dataclass(frozen=True)
class InPlaceDtypes:
    """The dtypes of a model's layers.

    Several sets of dtypes can be used with one model, one after the other.

    Args:
        policies: The layers, each with its dtype policy.
        products: The products of layers that compute them by role.
        convolutions: For layers whose convolution is computed by another function, this function.
        casts: Sub-layers whose outputs are cast, each with the layer in whose dtype they are
            wanted, or that dtype itself.
        plain: Layers whose call an earlier policy has replaced for good: they have that of their
            class again, unless `products` or `casts` replace it.
        as_float32: Variables that seem to be stored in float32: so values in float32, and their
            gradients, are not rounded to the dtype that they are stored in.
        saved_policies: As `policies`, where the config of a layer needs another one.
        saved_initializers: Attributes of layers with the initializers that a config needs.
        saves_dtypes: Whether a saved model has these dtypes. Keras does not save those of
            sub-layers that a custom layer makes: then all of them are saved as they were.
    """

    policies: Sequence[tuple[Layer, Any]] = ()
    products: Sequence[LayerProducts] = ()
    convolutions: Sequence[tuple[Layer, Callable[..., Any]]] = ()
    casts: Sequence[tuple[Layer, Any]] = ()
    plain: Sequence[Layer] = ()
    as_float32: Sequence[Any] = ()
    saved_policies: Sequence[tuple[Layer, Any]] = ()
    saved_initializers: Sequence[tuple[Layer, str, Any]] = ()
    saves_dtypes: bool = True

    @contextmanager
    def applied(self) -> Iterator[None]:
        """A context in which the layers have these dtypes; only tracing needs it.

        Entered again inside of itself, it does nothing: calls that were replaced meanwhile stay.
        """
        if any(active is self for active in _active):
            yield
            return
        calls = [(layer, type(layer).call.__get__(layer)) for layer in self.plain]
        calls += [(products.layer, products.call) for products in self.products]
        with ExitStack() as stack:
            stack.enter_context(replaced_attributes(DTYPE_POLICY, self.policies))
            stack.enter_context(replaced_attributes("convolution_op", self.convolutions))
            stored = [(variable, "float32") for variable in self.as_float32]
            stack.enter_context(replaced_attributes("_dtype", stored))
            stack.enter_context(replaced_methods(calls))
            # Read after the products are replaced.
            casts = [(layer, _casting(layer.call, dtype)) for layer, dtype in self.casts]
            stack.enter_context(replaced_methods(casts))
            _active.append(self)
            stack.callback(_active.pop)
            yield

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A context in which the configs of the layers have these dtypes."""
        if not self.saves_dtypes:
            yield
            return
        with ExitStack() as stack:
            policies = [*self.policies, *self.saved_policies]
            stack.enter_context(replaced_attributes(DTYPE_POLICY, policies))
            for layer, name, initializer in self.saved_initializers:
                stack.enter_context(replaced_attributes(name, [(layer, initializer)]))
            yield

    def install(self, model: Model) -> None:
        """Give the layers of a model these dtypes for good."""
        for layer, name, initializer in self.saved_initializers:
            setattr(layer, name, initializer)
        for layer, policy in [*self.policies, *self.saved_policies]:
            setattr(layer, DTYPE_POLICY, policy)
        for layer in self.plain:
            remove_installed_call(layer)
        for layer, convolution in self.convolutions:
            layer.convolution_op = convolution
        for products in self.products:
            products.install()
        for layer, dtype in self.casts:
            install_cast(layer, _casting(layer.call, dtype))
        for name in COMPILED_FUNCTIONS:
            if getattr(model, name, None) is not None:
                setattr(model, name, None)


def _casting(call: Any, target: Any) -> Any:
    """The call of a layer, with floating-point outputs in a dtype, or in that of another layer."""

    @wraps(call)
    def casting(*args: Any, **kwargs: Any) -> Any:
        dtype = target if isinstance(target, str) else target.compute_dtype
        return keras.tree.map_structure(partial(_cast, dtype=dtype), call(*args, **kwargs))

    return casting


def _cast(value: Any, dtype: str) -> Any:
    is_float = keras.ops.is_tensor(value) and value.dtype in (tf.float32, tf.float16, tf.bfloat16)
    return tf.cast(value, dtype) if is_float else value


_active: list[InPlaceDtypes] = []
"""Those whose context has been entered; the innermost is the last."""


def float32_dtypes(model: Model) -> InPlaceDtypes:
    """The dtypes with which every layer of a model computes in float32."""
    layers = [model, *flatten_layers(model, include_self=False)]
    policy = keras.DTypePolicy("float32")
    return InPlaceDtypes(
        [(layer, policy) for layer in layers if layer.compute_dtype in DTYPES_OF_16_BITS],
        plain=[layer for layer in layers if has_installed_call(layer)],
        as_float32=[
            variable for variable in model.variables if variable.dtype in DTYPES_OF_16_BITS
        ],
    )


@contextmanager
def replaced_attributes(name: str, values: Iterable[tuple[Any, Any]]) -> Iterator[None]:
    """A context in which an attribute of each object has another value."""
    previous_values: list[tuple[Any, Any]] = []
    try:
        for owner, value in values:
            previous_values.append((owner, getattr(owner, name)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, value in reversed(previous_values):
            setattr(owner, name, value)
