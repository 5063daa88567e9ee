"""Dtypes of a model's own layers and products, in effect only while the model is called."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras

from ampcore.precision.layer_products import LayerProducts, replaced_calls

Layer = Any


@dataclass(frozen=True)
class InPlaceDtypes:
    """The dtype policies of layers of a model that cannot be created again.

    Several sets of policies can be used with one model, one after the other.

    Args:
        policies: The layers, each with the name of its policy.
        products: The products of layers that compute them by role.
    """

    policies: Sequence[tuple[Layer, str]] = ()
    products: Sequence[LayerProducts] = ()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """A context in which the layers have these policies; only tracing needs it."""
        before = [layer.dtype_policy for layer, _ in self.policies]
        try:
            for layer, policy in self.policies:
                layer.dtype_policy = keras.DTypePolicy(policy)
            with replaced_calls((one.layer, one.call) for one in self.products):
                yield
        finally:
            for (layer, _), policy in zip(self.policies, before, strict=True):
                layer.dtype_policy = policy
