"""signature.json: what the saved models take and return, for programs that use them."""

import platform
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import ampspec
from ampcore.checkpoint.model_files import describe_tensors, tensor_specs
from ampcore.data import Dataset
from ampcore.models.task import Network
from ampcore.precision.layers.layer_paths import is_network


def signature_document(dataset: Dataset, networks: Sequence[Network]) -> dict[str, Any]:
    """The inputs and outputs of each model, and the names of classes.

    Shapes are those of one example. Outputs are logits for classes and labels, values for numbers.
    `values` are the numbers of classes in the data, where these are not 0, 1, 2, …
    `environment` has the versions of Python and the libraries.
    """
    document: dict[str, Any] = {"models": {}, "environment": _environment()}
    for network in networks:
        model = network.model
        if not is_network(model):
            continue
        document["models"][network.name] = {
            "inputs": tensor_specs(model, "input")
            if dataset.prepared is None
            else describe_tensors(dataset.prepared.raw),
            "outputs": tensor_specs(model, "output"),
        }
    if dataset.signature is not None:
        document["targets"] = {
            name: {
                "kind": target.kind,
                "size": target.size,
                "classes": list(target.names) if target.names is not None else None,
                **({"values": list(target.values)} if target.values is not None else {}),
            }
            for name, target in dataset.signature.targets.items()
        }
    return document


def _environment() -> dict[str, str]:
    """The versions of what has trained the models."""
    return {
        "ampcore": ampspec.__version__,
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }
