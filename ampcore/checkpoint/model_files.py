"""Saves the trained models, their weights and signature; a file gets its name once complete."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

import keras
import numpy as np

from ampcore.checkpoint.file_format import ArrayInPieces
from ampcore.checkpoint.model_tables import layer_tables, save_with_tables
from ampcore.checkpoint.tensors import WEIGHTS_FORMAT, write_tensors
from ampcore.keras_internals import producer
from ampcore.models.augmentation import without_augmentation
from ampcore.models.task import Network
from ampcore.models.weight_names import named_weights

SIGNATURE_FILE: Final = "signature.json"
"""Names, shapes and dtypes of inputs and outputs, beside the model."""
WEIGHTS_FILE: Final = "weights.safetensors"
"""The weights of all networks, for jobs that start from them."""


class InFront(Protocol):
    """What puts layers in front of a network, as `PreparedInputs` does."""

    def in_front_of(self, model: Any) -> Any:
        """The model with these layers."""


NO_TABLES: Final[Mapping[int, ArrayInPieces]] = MappingProxyType({})


def save_models(
    networks: Sequence[Network],
    folder: Path,
    preprocessing: InFront | None = None,
    *,
    suffix: str = "",
    tables: Mapping[int, ArrayInPieces] = NO_TABLES,
) -> Iterator[Path]:
    """Save each network as `<name><suffix>.keras` in the folder, which is created if needed.

    Args:
        networks: The trained networks.
        folder: Where to save them.
        preprocessing: What puts the layers that prepare raw data in front of a network.
        suffix: Follows the name of the network.
        tables: The whole tables of weights that have only some of the rows, by `id` of the weight;
            each one is taken once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for network in networks:
        with network.dtypes.saving(), _without_compile_state(network.model):
            model = without_augmentation(network.model)
            if preprocessing is not None:
                model = preprocessing.in_front_of(model)
            file = _save(folder, f"{network.name}{suffix}.keras", _writer(model, tables))
        yield file


@contextmanager
def _without_compile_state(model: Any) -> Iterator[None]:
    """A context in which a model seems not compiled.

    The run has used neither its loss nor its optimizer, whose slots would double the file, and a
    loss without a registered name could not be loaded.
    """
    if not getattr(model, "compiled", False):
        yield
        return
    optimizer = model.optimizer
    model.compiled, model.optimizer = False, None
    try:
        yield
    finally:
        model.compiled, model.optimizer = True, optimizer


def _writer(model: Any, tables: Mapping[int, ArrayInPieces]) -> Callable[[Path], Any]:
    """What saves a model to a file."""
    local_tables = layer_tables(model, tables) if tables else []
    return partial(save_with_tables, model, tables=local_tables) if local_tables else model.save


def save_weights(
    networks: Sequence[Network], folder: Path, tables: Mapping[int, ArrayInPieces] = NO_TABLES
) -> Path:
    """Save the weights of all networks as safetensors, by the paths of their layers.

    Another job can start from them. Layers of preprocessing are not among them.

    Args:
        networks: The trained networks.
        folder: Where to save them.
        tables: As of `save_models`.
    """
    arrays: dict[str, Any] = {
        weight.name: tables[id(weight.variable)]
        if id(weight.variable) in tables
        else np.asarray(weight.variable.value.numpy())
        for weight in named_weights(networks)
    }

    def write(file: Path) -> None:
        write_tensors(file, arrays, {"format": WEIGHTS_FORMAT})

    return _save(folder, WEIGHTS_FILE, write)


def save_signature(document: Mapping[str, Any], folder: Path) -> Path:
    """Save the signature of the models beside them."""

    def write(file: Path) -> None:
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")

    return _save(folder, SIGNATURE_FILE, write)


def tensor_specs(model: Any, side: Literal["input", "output"]) -> dict[str, dict[str, Any]]:
    """For each input or output of a model its shape, without the batch axis, and dtype."""
    # A sequential model has the lists only.
    tensors = model.inputs if side == "input" else model.outputs
    structure = {producer(tensor)[0].name: tensor for tensor in tensors}
    if not isinstance(model, keras.Sequential):
        tensors_by_name = getattr(model, side)
        structure = dict(tensors_by_name) if isinstance(tensors_by_name, Mapping) else structure
    return describe_tensors(structure)


def describe_tensors(tensors: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By name, the shape of a symbolic tensor, without the batch axis, and its dtype."""
    return {
        name: {
            "shape": list(tensor.shape[1:]),
            "dtype": keras.backend.standardize_dtype(tensor.dtype),
        }
        for name, tensor in tensors.items()
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
