"""Reads text as windows of characters: `x`, and the next characters as `y`.

The vocabulary is every character of the file, in the order of their code points. The indices of the
characters are written to the cache and memory-mapped.
"""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ampdata.arrays.array_source import ArraySource
from ampdata.cache import converted
from ampdata.files import DataFile, open_file
from ampdata.source import Column, OpenRequest, choose_columns, choose_split
from ampspec.data.file_formats import TextOptions
from ampspec.errors import InvalidData

BLOCK: Final = 2**20
INDICES: Final = "characters.int32"
VOCABULARY: Final = "vocabulary.json"


def open_text(request: OpenRequest, options: TextOptions) -> ArraySource:
    """Windows (sequence,) of int32; an incomplete last window is left out. Raises InvalidData."""
    choose_split(request.name, (), request.split)
    file = DataFile(request.path, request.name)
    folder = converted(
        request.cache,
        ("text", file.fingerprint()),
        lambda folder: _convert(file, folder, request.limits.cache_bytes),
    )
    characters = np.memmap(folder / INDICES, np.int32, "r")
    vocabulary = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
    rows = (len(characters) - 1) // options.sequence
    if rows < 1:
        raise InvalidData(
            request.name,
            "sequence",
            expected=f"at most {len(characters) - 1}, since the file has {len(characters)} "
            "characters and the last one is used only as a label",
            received=str(options.sequence),
        )
    used, shape = rows * options.sequence, (rows, options.sequence)
    arrays = {"x": characters[:used].reshape(shape), "y": characters[1 : used + 1].reshape(shape)}
    column = Column((options.sequence,), "int32", tuple(vocabulary))
    columns = dict.fromkeys(choose_columns(request.name, arrays, request.columns), column)
    return ArraySource(request.name, columns, arrays)


def _convert(file: DataFile, folder: Path, max_bytes: int) -> None:
    """Write the index of each character in the sorted vocabulary, and the vocabulary."""
    alphabet: NDArray[np.uint32] = np.empty(0, np.uint32)
    count = 0
    for codes in _code_points(file):
        alphabet = np.union1d(alphabet, codes)
        count += len(codes)
    if len(alphabet) < 2:
        raise InvalidData(
            file.name,
            None,
            expected="text with at least two different characters",
            received=f"{count} characters, {len(alphabet)} different",
        )
    if count * 4 > max_bytes:
        raise InvalidData(
            file.name,
            None,
            expected=f"at most {max_bytes // 4:,} characters",
            received=f"{count:,}",
        )
    with (folder / INDICES).open("wb") as stream:
        for codes in _code_points(file):
            stream.write(np.searchsorted(alphabet, codes).astype(np.int32).tobytes())
    vocabulary = json.dumps([chr(code) for code in alphabet.tolist()])
    (folder / VOCABULARY).write_text(vocabulary, encoding="utf-8")


def _code_points(file: DataFile) -> Iterator[NDArray[np.uint32]]:
    """The code points of the file in blocks. Raises InvalidData."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    position = 0
    with open_file(file) as stream:
        while True:
            block = stream.read(BLOCK)
            pending = len(decoder.getstate()[0])
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                at = position - pending + error.start
                received = f"byte 0x{error.object[error.start]:02x} at {at}: {error.reason}"
                raise InvalidData(
                    file.name, None, expected="text in UTF-8", received=received
                ) from None
            if not block:
                return
            position += len(block)
            yield np.frombuffer(text.encode("utf-32-le"), np.uint32)
