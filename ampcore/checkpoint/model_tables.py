"""Saves a Keras model whose tables arrive in pieces, so that no table is in memory as a whole.

A `.keras` file is a zip archive of the configuration and of `model.weights.h5`, which has the
weights of each layer in a group with its name. Keras saves the model with no rows in the place of
each table; then the weights are written again, with the rows.
"""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

from ampcore.checkpoint.file_format import ArrayInPieces
from ampcore.precision.layers.layer_paths import walk_layers

WEIGHTS: Final = "model.weights.h5"
"""The weights in a `.keras` file."""
TABLE: Final = "0"
"""The number under which a keras.layers.Embedding saves its table."""


@dataclass(frozen=True)
class LayerWithTable:
    """A keras.layers.Embedding of which only some rows are in memory, and its whole table."""

    layer: Any
    table: ArrayInPieces


def layer_tables(model: Any, tables: Mapping[int, ArrayInPieces]) -> list[LayerWithTable]:
    """The layers of a model that have these tables, which are given by `id` of the variable."""
    return [
        LayerWithTable(entry.layer, tables[id(variable)])
        for entry in walk_layers(model)
        if id(variable := getattr(entry.layer, "embeddings", None)) in tables
    ]


def save_with_tables(model: Any, file: Path, tables: Sequence[LayerWithTable]) -> None:
    """Save a model with its whole tables. Raises OSError.

    While it is written, the folder has the weights twice.

    Args:
        model: A Keras model; its layers with tables have only some of their rows.
        file: A new file, whose name ends with `.keras`.
        tables: Their whole tables; each one is taken once.
    """
    without_rows = file.with_stem(f"{file.stem}-without-rows")
    weights = file.with_suffix(".h5")
    try:
        with ExitStack() as stack:
            for layer_table in tables:
                stack.enter_context(_as_whole_layer(layer_table))
            model.save(without_rows)
        with zipfile.ZipFile(without_rows) as source, zipfile.ZipFile(file, "w") as target:
            for entry in source.infolist():
                if entry.filename != WEIGHTS:
                    target.writestr(entry, source.read(entry))
                    continue
                weights.write_bytes(source.read(entry))
                _write_rows(weights, tables)
                target.write(weights, WEIGHTS)
    finally:
        without_rows.unlink(missing_ok=True)
        weights.unlink(missing_ok=True)


@contextmanager
def _as_whole_layer(layer_table: LayerWithTable) -> Iterator[None]:
    """Keras saves the configuration of the layer with the whole table, and no rows of it."""
    layer, table = layer_table.layer, layer_table.table
    own_rows = layer.input_dim
    no_rows = np.empty((0, *table.shape[1:]), table.dtype)
    layer.input_dim = table.shape[0]
    layer.save_own_variables = lambda store: store.__setitem__(TABLE, no_rows)
    try:
        yield
    finally:
        layer.input_dim = own_rows
        del layer.save_own_variables  # that of its class again


def _write_rows(weights: Path, tables: Sequence[LayerWithTable]) -> None:
    """Replace the tables without rows in a file of weights."""
    with h5py.File(weights, "r+") as file:
        for layer_table in tables:
            group = _group_of(file, layer_table.layer.name)
            empty_rows = group[TABLE]
            attributes, dtype = dict(empty_rows.attrs), empty_rows.dtype
            del group[TABLE]
            rows = group.create_dataset(TABLE, layer_table.table.shape, dtype)
            rows.attrs.update(attributes)  # bfloat16 is named there
            start = 0
            for piece in layer_table.table.pieces():
                rows[start : start + len(piece)] = piece.view(dtype)
                start += len(piece)


def _group_of(file: Any, layer: str) -> Any:
    """The group with the weights of a layer that has no rows yet."""
    groups: list[Any] = []

    def visit(name: str, item: Any) -> None:
        if item.attrs.get("name") == layer and TABLE in item and item[TABLE].shape[0] == 0:
            groups.append(item)

    file.visititems(visit)
    if len(groups) != 1:
        raise RuntimeError(f"Expected the weights of {layer} once; found them {len(groups)} times.")
    return groups[0]
