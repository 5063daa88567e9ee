"""Writes a checkpoint file from the memory of its arrays, without copying them."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ampcore.checkpoint.file_format import (
    BEST_MODEL,
    DIGEST,
    DIGEST_SIZE,
    FORMAT,
    FORMAT_WITH_BEST_MODEL,
    FORMAT_WITH_GOOD_STATE,
    GOOD_STATE,
    SAFETENSORS_NAMES,
    Array,
    ArrayInPieces,
    Checkpoint,
)
from ampcore.checkpoint.manifest import Manifest
from ampcore.checkpoint.tensors import array_bytes
from ampspec.tensor_header import METADATA, encode_header

_DIGEST_PLACEHOLDER: Final = np.empty(DIGEST_SIZE, np.uint8)


@dataclass(frozen=True)
class CheckpointWriter:
    """Writes all bytes of the file, followed by their digest."""

    header: bytes
    """With its length."""
    arrays: tuple[Array | ArrayInPieces, ...]
    """In the order of the file."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        """The file of a checkpoint. Raises ValueError for a name or dtype that it cannot hold."""
        # Wide dtypes first, as in the safetensors library, so that every array is aligned.
        arrays = sorted(_all_arrays(checkpoint), key=lambda item: -item[1].dtype.itemsize)
        header = _header(_format(checkpoint), checkpoint.manifest, arrays)
        return cls(header, tuple(array for _, array in arrays))

    @property
    def size_bytes(self) -> int:
        """The length of the whole file."""
        return len(self.header) + sum(array.nbytes for array in self.arrays) + DIGEST_SIZE

    @property
    def tables(self) -> list[ArrayInPieces]:
        """The arrays that are written in pieces, in the order of the file."""
        return [array for array in self.arrays if isinstance(array, ArrayInPieces)]

    def write(self, descriptor: int) -> None:
        """Write the file and hash it in a second thread at the same time. Raises OSError."""
        digest = hashlib.sha256()
        with ThreadPoolExecutor(max_workers=1) as hashing:
            last_update = hashing.submit(digest.update, b"")
            for piece in self._pieces():
                update = hashing.submit(digest.update, piece)
                _write_all(descriptor, piece)
                last_update.result()  # so that at most two pieces are in memory
                last_update = update
        _write_all(descriptor, memoryview(digest.digest()))

    def _pieces(self) -> Iterator[memoryview]:
        yield memoryview(self.header)
        for array in self.arrays:
            if isinstance(array, ArrayInPieces):
                yield from map(array_bytes, array.pieces())
            else:
                yield array_bytes(array)


def _format(checkpoint: Checkpoint) -> str:
    """The oldest format that can hold the checkpoint."""
    if checkpoint.best_arrays is not None:
        return FORMAT_WITH_BEST_MODEL
    return FORMAT if checkpoint.good_arrays is None else FORMAT_WITH_GOOD_STATE


def _all_arrays(checkpoint: Checkpoint) -> list[tuple[str, Array]]:
    prefixes = (GOOD_STATE, BEST_MODEL)
    if reserved := next((name for name in checkpoint.arrays if name.startswith(prefixes)), None):
        raise ValueError(
            f"A checkpoint array cannot be named {reserved!r}: the prefix is reserved."
        )
    further = {GOOD_STATE: checkpoint.good_arrays, BEST_MODEL: checkpoint.best_arrays}
    return [
        *checkpoint.arrays.items(),
        *(
            (f"{prefix}{name}", array)
            for prefix, arrays in further.items()
            for name, array in (arrays or {}).items()
        ),
    ]


def _header(format_: str, manifest: Manifest, arrays: Iterable[tuple[str, Array]]) -> bytes:
    named_arrays = [*arrays, (DIGEST, _DIGEST_PLACEHOLDER)]
    names: set[str] = {METADATA}
    for name, array in named_arrays:
        if name in names:
            raise ValueError(f"A checkpoint array cannot be named {name!r}: the name is reserved.")
        if array.dtype not in SAFETENSORS_NAMES:
            raise ValueError(f"A checkpoint cannot hold {name}: its dtype is {array.dtype}.")
        names.add(name)
    return encode_header(
        (
            (name, SAFETENSORS_NAMES[array.dtype], array.shape, array.nbytes)
            for name, array in named_arrays
        ),
        {"format": format_, "manifest": manifest.model_dump_json()},
    )


def _write_all(descriptor: int, piece: memoryview) -> None:
    while piece:  # one call writes at most 2 GiB, or as much as there is room for
        piece = piece[os.write(descriptor, piece) :]
