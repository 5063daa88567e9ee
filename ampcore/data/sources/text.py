"""Loads text as windows of `sequence` characters, each labelled with the next character."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from ampcore.data.dataset import Dataset
from ampcore.data.files import resolve_path
from ampcore.data.registry import LoadOptions, register
from ampdata import open_source
from ampdata.row_places import RowPlace
from ampspec.data.data import Text
from ampspec.data.file_formats import TextOptions


@register("text")
def text(spec: Text, options: LoadOptions) -> Dataset:
    """Consecutive windows (n, sequence), int32; an incomplete last window is left out.

    The vocabulary is every character of the file, in the order of their code points. Raises
    InvalidData.
    """
    name = spec.file_reference
    path = resolve_path(name, options.data_root)
    with tempfile.TemporaryDirectory(prefix="ampcore-data-") as cache:
        format_options = TextOptions(sequence=spec.sequence)
        with open_source(path, format_options, cache=Path(cache), name=name) as source:
            windows = source.read(np.arange(source.rows))
            characters = source.columns["x"].classes or ()
    size = len(characters)
    dataset = Dataset.split(windows["x"], windows["y"], size, spec.validation_split, size)

    def place_of(example: int) -> RowPlace:
        return RowPlace(name, character=example * spec.sequence + 1)

    return replace(dataset, characters="".join(characters), place_of=place_of)
