"""The models of packages that the operator has installed on the worker."""

from collections.abc import Mapping
from typing import Any

import keras

from ampcore import plugins as packages
from ampcore.data.dataset import Signature
from ampcore.models.registry import register
from ampspec.errors import InvalidModel
from ampspec.models.model import Package


@register("package")
def package_model(spec: Package, signature: Signature) -> Any:
    """The model that the package builds; raises InvalidModel where it cannot."""
    model = packages.build(spec, "a model for this data", signature)
    networks = model.values() if isinstance(model, Mapping) else [model]
    for network in networks:
        if not isinstance(network, keras.Model) or not network.trainable_variables:
            raise InvalidModel(
                "model.package",
                expected=f"{spec.label} to return a built keras.Model with trainable variables",
                received=type(network).__name__,
            )
    return dict(model) if isinstance(model, Mapping) else model
