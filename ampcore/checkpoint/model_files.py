"""Saves the trained models, their weights and signature; a file gets its name once complete."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import keras
import numpy as np

from ampcore.checkpoint.tensors import WEIGHTS_FORMAT, write_tensors
from ampcore.models.augmentation import without_augmentation
from ampcore.models.task import Network
from ampcore.models.weight_names import named_weights

SIGNATURE_FILE: Final = "signature.json"
"""Names, shapes and dtypes of inputs and outputs, beside the model."""
WEIGHTS_FILE: Final = "weights.safetensors"
"""The weights of all networks, for jobs that start from them."""


def save_models(
    networks: Sequence[Network],
    folder: Path,
    preprocessing: Any | None = None,
    *,
    suffix: str = "",
) -> Iterator[Path]:
    """Save each network as `<name><suffix>.keras` in the folder, which is created if needed.

    Args:
        networks: The trained networks.
        folder: Where to save them.
        preprocessing: A Keras model from raw data to the inputs of a network, saved in front of it.
        suffix: Follows the name of the network.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for network in networks:
        model = without_augmentation(network.model)
        if preprocessing is not None:
            model = with_preprocessing(model, preprocessing)
        yield _save(folder, f"{network.name}{suffix}.keras", model.save)


def save_weights(networks: Sequence[Network], folder: Path) -> Path:
    """Save the weights of all networks as safetensors, by the paths of their layers.

    Another job can start from them. Layers of preprocessing are not among them.
    """
    arrays = {
        weight.name: np.asarray(weight.variable.value.numpy()) for weight in named_weights(networks)
    }

    def write(file: Path) -> None:
        write_tensors(file, arrays, {"format": WEIGHTS_FORMAT})

    return _save(folder, WEIGHTS_FILE, write)


def save_signature(document: Mapping[str, Any], folder: Path) -> Path:
    """Save the signature of the models beside them."""

    def write(file: Path) -> None:
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

    return _save(folder, SIGNATURE_FILE, write)


def with_preprocessing(model: Any, preprocessing: Any) -> Any:
    """A model that takes raw data: the layers of preprocessing, then those of the model."""
    return keras.Model(preprocessing.input, model(preprocessing.output), name=model.name)


def tensor_specs(model: Any, side: Literal["input", "output"]) -> dict[str, dict[str, Any]]:
    """For each input or output of a model its shape, without the batch axis, and dtype."""
    # A sequential model has the lists only.
    tensors = model.inputs if side == "input" else model.outputs
    structure = {tensor._keras_history.operation.name: tensor for tensor in tensors}
    if not isinstance(model, keras.Sequential):
        named = getattr(model, side)
        structure = dict(named) if isinstance(named, Mapping) else structure
    return {
        name: {
            "shape": list(tensor.shape[1:]),
            "dtype": keras.backend.standardize_dtype(tensor.dtype),
        }
        for name, tensor in structure.items()
    }


def _save(folder: Path, name: str, write: Callable[[Path], Any]) -> Path:
    file = folder / name
    unfinished = file.with_stem(f".{file.stem}-{os.getpid()}")
    try:
        write(unfinished)
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return file
