"""The checkpoint file: safetensors, whose last tensor is the SHA-256 of every byte before it.

Eight bytes with the length of the header (little endian); the header, a JSON object of name →
dtype, shape and offsets, with the manifest in its metadata; the bytes of the arrays, without gaps.

Source: https://github.com/huggingface/safetensors#format
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ampcore.checkpoint.manifest import Manifest
from ampspec.tensor_header import DTYPE_NAMES

Array = NDArray[Any]
Arrays = Mapping[str, Array]


@runtime_checkable
class ArrayInPieces(Protocol):
    """An array of which only a piece is in memory at once."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""

    @property
    def nbytes(self) -> int:
        """The size of the whole array."""

    def pieces(self) -> Iterator[Array]:
        """Its rows in order, once."""

    def finish(self) -> None:
        """Pass over the pieces that nobody has taken."""


FORMAT_PREFIX: Final = "ampcore-checkpoint-"
FORMAT: Final = f"{FORMAT_PREFIX}1"
FORMAT_WITH_GOOD_STATE: Final = f"{FORMAT_PREFIX}2"
"""Holds the arrays of a second state, which readers of the first format do not know."""
FORMAT_WITH_BEST_MODEL: Final = f"{FORMAT_PREFIX}3"
"""Holds the weights of the best evaluation, and perhaps a second state."""
FORMATS: Final = (FORMAT, FORMAT_WITH_GOOD_STATE, FORMAT_WITH_BEST_MODEL)
GOOD_STATE: Final = "good_state:"
"""The prefix of the names of that state's arrays."""
BEST_MODEL: Final = "best_model:"
"""The prefix of the names of those weights."""
DIGEST: Final = "__sha256__"
DIGEST_SIZE: Final = hashlib.sha256().digest_size

DTYPES: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(ml_dtypes.bfloat16 if numpy_name == "bfloat16" else numpy_name)
    for numpy_name, name in DTYPE_NAMES.items()
}
"""The dtypes of arrays by their names in safetensors; little endian."""
SAFETENSORS_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
"""The names by dtype; big-endian arrays have none."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run: its manifest, and its arrays by name (of the dtypes in `DTYPES`).

    `good_arrays` are the arrays of an earlier state for a rollback; None when that is this state,
    or no rollback state is kept. `best_arrays` are the weights of the best evaluation; None unless
    the run keeps them. To be written, an array may also be an `ArrayInPieces`.
    """

    manifest: Manifest
    arrays: dict[str, Array]
    good_arrays: dict[str, Array] | None = None
    best_arrays: dict[str, Array] | None = None
