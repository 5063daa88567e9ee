"""Loads text as windows of `sequence` characters, each labelled with the next character."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ampcore.data.dataset import Dataset
from ampcore.data.files import open_data_file
from ampcore.data.registry import LoadOptions, register
from ampcore.errors import InvalidData
from ampcore.formats.row_places import RowPlace
from ampcore.spec.data import Text


@register("text")
def text(spec: Text, options: LoadOptions) -> Dataset:
    """Consecutive windows (n, sequence), int32; an incomplete last window is left out.

    The vocabulary is every character of the file, in the order of their code points. Raises
    InvalidData.
    """
    ids, characters = _characters(spec.file_reference, options.data_root)
    vocabulary = len(characters)
    windows = (len(ids) - 1) // spec.sequence
    if windows < 1:
        raise InvalidData(
            spec.file_reference,
            "sequence",
            expected=f"at most {max(len(ids) - 1, 0)}, since the file has {len(ids)} characters "
            "and the last one is used only as a label",
            received=str(spec.sequence),
        )
    used = windows * spec.sequence
    x = ids[:used].reshape(windows, spec.sequence)
    y = ids[1 : used + 1].reshape(windows, spec.sequence)
    made = Dataset.split(x, y, vocabulary, spec.validation_split, vocabulary)

    def place_of(example: int) -> RowPlace:
        return RowPlace(spec.file_reference, character=example * spec.sequence + 1)

    return replace(made, characters=characters, place_of=place_of)


def _characters(path: str, data_root: Path | None) -> tuple[NDArray[np.int32], str]:
    """The index of each character in the sorted vocabulary, and the vocabulary."""
    with open_data_file(path, data_root) as stream:
        content = stream.read()
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        received = f"byte 0x{content[error.start]:02x} at {error.start}: {error.reason}"
        raise InvalidData(path, None, expected="text in UTF-8", received=received) from None
    codes = np.frombuffer(decoded.encode("utf-32-le"), np.uint32)
    characters, ids = np.unique(codes, return_inverse=True)
    if len(characters) < 2:
        received = f"{len(codes)} characters, {len(characters)} different"
        raise InvalidData(
            path, None, expected="text with at least two different characters", received=received
        )
    return ids.astype(np.int32), characters.tobytes().decode("utf-32-le")
