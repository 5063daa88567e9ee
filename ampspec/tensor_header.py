"""The header of a safetensors file: the dtype, shape and offsets of each array, checked.

Eight bytes with the length of the header (little endian); the header, a JSON object of name →
dtype, shape and offsets; the bytes of the arrays, without gaps. It needs no NumPy, so that a server
can check an uploaded file.

Source: https://github.com/huggingface/safetensors#format
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

LENGTH_SIZE: Final = 8
MAX_HEADER_SIZE: Final = 100_000_000
"""The limit of the safetensors library, in bytes."""
METADATA: Final = "__metadata__"
MAX_DIMENSIONS: Final = 32
MAX_WEIGHTS_HEADER_SIZE: Final = 16_000_000
MAX_TENSORS: Final = 65_536
MAX_NAME_CHARS: Final = 1024
"""The limits of an untrusted file of weights."""
MAX_SHOWN_CHARS: Final = 80
"""The maximum number of characters of a received value in a message."""

_DTYPES: Final = {
    "bool": ("BOOL", 1),
    **{"uint8": ("U8", 1), "uint16": ("U16", 2), "uint32": ("U32", 4), "uint64": ("U64", 8)},
    **{"int8": ("I8", 1), "int16": ("I16", 2), "int32": ("I32", 4), "int64": ("I64", 8)},
    **{
        "float16": ("F16", 2),
        "bfloat16": ("BF16", 2),
        "float32": ("F32", 4),
        "float64": ("F64", 8),
    },
}
DTYPE_NAMES: Final = {numpy_name: name for numpy_name, (name, _) in _DTYPES.items()}
"""The names of dtypes in safetensors, by those of NumPy."""
DTYPE_SIZES: Final = dict(_DTYPES.values())
"""The bytes of an element, by the names of dtypes in safetensors."""

_Size = Annotated[int, Field(ge=0, lt=2**63)]


class TensorEntry(BaseModel):
    """The dtype, shape and offsets of an array."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: str
    shape: Annotated[tuple[_Size, ...], Field(max_length=MAX_DIMENSIONS)]
    data_offsets: tuple[_Size, _Size]

    @property
    def size_bytes(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * DTYPE_SIZES[self.dtype]


_ENTRIES: Final = TypeAdapter(dict[str, TensorEntry])


class TensorFormatError(Exception):
    """A file is not valid: the expected and the received content."""

    def __init__(self, expected: str, received: object) -> None:
        text = str(received)
        self.expected = expected
        self.received = text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 1]}…"
        super().__init__(expected, text)

    def __str__(self) -> str:
        return f"expected {self.expected}; received {self.received}"


@dataclass(frozen=True)
class RawHeader:
    """The JSON object of a header, whose entries are not checked yet."""

    data: bytes
    """All bytes before those of the arrays."""
    document: dict[str, Any]
    data_size: int
    """The bytes after the header."""


def encode_header(
    entries: Iterable[tuple[str, str, Sequence[int], int]], metadata: Mapping[str, str]
) -> bytes:
    """All bytes of a file before those of its arrays.

    Args:
        entries: The name, dtype, shape and size in bytes of each array, in the order of the data.
        metadata: Texts by name.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)}
    end = 0
    for name, dtype, shape, size_bytes in entries:
        begin, end = end, end + size_bytes
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % LENGTH_SIZE)
    return len(text).to_bytes(LENGTH_SIZE, "little") + text


def read_raw_header(stream: BinaryIO, size: int, *, max_size: int = MAX_HEADER_SIZE) -> RawHeader:
    """Read the header of a file of `size` bytes, which is at its beginning.

    Raises TensorFormatError and OSError.
    """
    length = stream.read(LENGTH_SIZE)
    header_size = int.from_bytes(length, "little")
    if size < LENGTH_SIZE or not 0 < header_size <= size - LENGTH_SIZE:
        raise TensorFormatError("a safetensors file", f"{size} bytes in another format")
    if header_size > max_size:
        raise TensorFormatError(f"a header of at most {max_size} bytes", header_size)
    text = stream.read(header_size)
    return RawHeader(length + text, _json_object(text), size - LENGTH_SIZE - header_size)


def check_entries(document: dict[str, Any], data_size: int) -> dict[str, TensorEntry]:
    """The entries in the order of their data, which they fill without gap or overlap.

    Args:
        document: The JSON object of a header, without its metadata.
        data_size: The bytes after the header.

    Raises:
        TensorFormatError: An entry is not valid.
    """
    try:
        entries = _ENTRIES.validate_python(document)
    except ValidationError as error:
        received = first_problem(error)
        raise TensorFormatError("dtype, shape and data_offsets of each array", received) from None
    entries = dict(sorted(entries.items(), key=lambda item: item[1].data_offsets))
    end = 0
    for name, entry in entries.items():
        if entry.dtype not in DTYPE_SIZES:
            expected = f"{name} in one of the dtypes {', '.join(DTYPE_SIZES)}"
            raise TensorFormatError(expected, entry.dtype)
        begin, end = end, end + entry.size_bytes
        if entry.data_offsets != (begin, end):
            raise TensorFormatError(f"{name} in the bytes {begin} to {end}", entry.data_offsets)
    if end != data_size:
        raise TensorFormatError(f"{end} bytes of arrays", data_size)
    return entries


def read_weights_header(stream: BinaryIO, size: int) -> dict[str, TensorEntry]:
    """The entries of a file of weights of `size` bytes, in the order of their data.

    Raises TensorFormatError, also if the file exceeds the limits, and OSError.
    """
    raw = read_raw_header(stream, size, max_size=MAX_WEIGHTS_HEADER_SIZE)
    metadata = raw.document.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise TensorFormatError(f"texts by name as {METADATA}", type(metadata).__name__)
    if not 0 < len(raw.document) <= MAX_TENSORS:
        raise TensorFormatError(f"from 1 to {MAX_TENSORS} arrays", len(raw.document))
    long = next((name for name in raw.document if not 0 < len(name) <= MAX_NAME_CHARS), None)
    if long is not None:
        raise TensorFormatError(f"names of 1 to {MAX_NAME_CHARS} characters", repr(long))
    return check_entries(raw.document, raw.data_size)


def first_problem(error: ValidationError) -> str:
    """The first error of pydantic, in one line."""
    problem = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def _json_object(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TensorFormatError("a header in JSON", error) from None
    if not isinstance(document, dict):
        raise TensorFormatError("a JSON object as the header", type(document).__name__)
    return document
