"""Encodes arrays as a plain safetensors file, such as the weights of a model.

Source: https://github.com/huggingface/safetensors#format
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ampcore.checkpoint.file_format import DTYPES, LENGTH_SIZE, METADATA, Array

_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}


def encode_tensors(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a file with these arrays and texts.

    Raises ValueError for a name or a dtype that it cannot hold.
    """
    # Wide dtypes first, so that every array is aligned.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    header: dict[str, Any] = {METADATA: dict(metadata)}
    end = 0
    for name, array in ordered:
        if name == METADATA or array.dtype not in _NAMES:
            raise ValueError(f"Expected an array of numbers, received {name}: {array.dtype}.")
        begin, end = end, end + array.nbytes
        dtype, shape = _NAMES[array.dtype], list(array.shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % LENGTH_SIZE)
    return b"".join(
        (
            len(text).to_bytes(LENGTH_SIZE, "little"),
            text,
            *(np.ascontiguousarray(array).tobytes() for _, array in ordered),
        )
    )
