"""signature.json: what the saved models take and return, for programs that use them."""

from collections.abc import Sequence
from typing import Any

from ampcore.checkpoint.model_files import tensor_specs
from ampcore.data import Dataset
from ampcore.models.task import Network
from ampcore.precision.layer_paths import is_network


def signature_document(dataset: Dataset, networks: Sequence[Network]) -> dict[str, Any]:
    """The inputs and outputs of each model, and the names of classes.

    Shapes are those of one example. Outputs are logits for classes and labels, values for numbers.
    """
    document: dict[str, Any] = {"models": {}}
    for network in networks:
        model = network.model
        if not is_network(model):
            continue
        raw = dataset.prepared.model if dataset.prepared is not None else model
        document["models"][network.name] = {
            "inputs": tensor_specs(raw, "input"),
            "outputs": tensor_specs(model, "output"),
        }
    if dataset.signature is not None:
        document["targets"] = {
            name: {
                "kind": target.kind,
                "size": target.size,
                "classes": list(target.names) if target.names is not None else None,
            }
            for name, target in dataset.signature.targets.items()
        }
    return document
