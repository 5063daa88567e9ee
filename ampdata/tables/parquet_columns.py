"""Maps Arrow types to columns, and converts their values for storage."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ampdata.images.encoded_images import is_encoded_image
from ampdata.source import Column, Dtype
from ampdata.tables.arrow_table import storage_type
from ampspec.errors import InvalidData

MAX_INT64: Final = 2**63 - 1
MAX_DIMENSIONS: Final = 4
MAX_MESSAGE: Final = 200
"""Maximum length of an Arrow error in a message."""
NUMBERS: Final[dict[str, Dtype]] = {
    "bool": "bool",
    "uint8": "uint8",
    "int8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "int32": "int32",
    "uint32": "int64",
    "int64": "int64",
    "uint64": "int64",
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
}
"""The dtypes of columns by Arrow's names."""

Invalid = Callable[[int, str, str], InvalidData]
"""Creates the error for a row of the batch, from the expected and the received value."""


def image_bytes(values: Any) -> Any:
    """The bytes of images, from Hugging Face's `{bytes, path}` or the values themselves."""
    at = values.type.get_field_index("bytes") if pa.types.is_struct(values.type) else -1
    return values.flatten()[at] if at >= 0 else values


@lru_cache(maxsize=1024)
def plain_type(dtype: pa.DataType) -> pa.DataType:
    """The common type of different storage forms of the same values.

    Dictionaries, views and large types become plain types, extension types their storage types.
    """
    types = pa.types
    if isinstance(dtype, pa.FixedShapeTensorType) and not dtype.permutation:
        nested = dtype.value_type
        for size in reversed(dtype.shape):
            nested = pa.list_(nested, size)
        return nested
    if isinstance(dtype, pa.BaseExtensionType):
        return plain_type(dtype.storage_type)
    if types.is_dictionary(dtype):
        return plain_type(dtype.value_type)
    if _is_text(dtype):
        return pa.string()
    if _is_binary(dtype):
        return pa.binary()
    if types.is_fixed_size_list(dtype):
        return pa.list_(plain_type(dtype.value_type), dtype.list_size)
    if _is_list(dtype):
        return pa.list_(plain_type(dtype.value_type))
    if types.is_struct(dtype):
        return pa.struct([field.with_type(plain_type(field.type)) for field in dtype])
    return dtype


def plain_values(values: Any) -> Any:
    """Values with their `plain_type`. Raises ArrowInvalid and ArrowNotImplementedError."""
    if isinstance(values.type, pa.FixedShapeTensorType) and not values.type.permutation:
        size, storage = values.type.storage_type.list_size, values.storage
        nested = storage.values[storage.offset * size : (storage.offset + len(storage)) * size]
        for side in reversed(values.type.shape[1:]):
            nested = pa.FixedSizeListArray.from_arrays(nested, side)
        first = values.type.shape[0]
        return pa.FixedSizeListArray.from_arrays(nested, first, mask=values.is_null())
    if isinstance(values, pa.ExtensionArray):
        return plain_values(values.storage)
    dtype = plain_type(values.type)
    return values if values.type == dtype else values.cast(dtype)


def column_of(dtype: pa.DataType, sample: Any) -> Column | None:
    """The column for values of a plain type; None if columns cannot hold them."""
    if pa.types.is_struct(dtype) and dtype.get_field_index("bytes") >= 0:
        return column_of(dtype.field("bytes").type, image_bytes(sample))
    if _is_binary(dtype):
        values = sample.drop_null()
        is_image = len(values) and is_encoded_image(values[0].as_py())
        return Column((), "image") if is_image else None
    shape: list[int] = []
    while _is_list(dtype):
        values = sample.drop_null()
        if not len(values) or len(shape) == MAX_DIMENSIONS:
            return None
        shape.append(len(values[0]))
        sample, dtype = values.flatten(), dtype.value_type
    scalar = _scalar_dtype(dtype)
    if scalar is None or 0 in shape or (shape and scalar == "string"):
        return None
    return Column(tuple(shape), scalar)


def is_ragged(sample: Any) -> bool:
    """Whether lists differ in length."""
    while _is_list(sample.type):
        sample = sample.drop_null()
        if pc.count_distinct(pc.list_value_length(sample)).as_py() > 1:
            return True
        sample = sample.flatten()
    return False


def needs_sample(dtype: pa.DataType) -> bool:
    """Whether the column of a plain type depends on its values: list lengths, images."""
    return _is_binary(dtype) or _is_list(dtype) or bool(pa.types.is_struct(dtype))


def _scalar_dtype(dtype: pa.DataType) -> Dtype | None:
    types = pa.types
    if types.is_decimal(dtype):
        return "float64"
    if _is_text(dtype) or types.is_date(dtype) or types.is_time(dtype) or types.is_timestamp(dtype):
        return "string"
    return NUMBERS.get(str(dtype))


def is_short(dtype: pa.DataType) -> bool:
    """Whether values have a fixed size."""
    return bool(pa.types.is_primitive(dtype))


def _is_binary(dtype: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(dtype)
        or types.is_large_binary(dtype)
        or types.is_binary_view(dtype)
        or types.is_fixed_size_binary(dtype)
    )


def _is_text(dtype: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)
    )


def _is_list(dtype: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(dtype)
        or types.is_large_list(dtype)
        or types.is_fixed_size_list(dtype)
        or types.is_list_view(dtype)
        or types.is_large_list_view(dtype)
    )


def convert_values(values: Any, column: Column, invalid: Invalid) -> Any:
    """Numbers, text and lists as they are stored. Raises InvalidData for the first bad row."""
    return _vectors(values, column, invalid) if column.shape else _scalars(values, column, invalid)


def _vectors(values: Any, column: Column, invalid: Invalid) -> Any:
    """Lists of the column's shape as flat lists."""
    per_row = 1
    for length in column.shape:
        lengths = pc.list_value_length(values)
        is_other_length = pc.fill_null(pc.not_equal(lengths, length), True)
        if (at := is_other_length.index(True).as_py()) >= 0:
            received = "none" if lengths[at].as_py() is None else f"{lengths[at]} values"
            raise invalid(at // per_row, f"{length} values, as in the first row", received)
        values, per_row = values.flatten(), per_row * length

    def invalid_value(at: int, expected: str, received: str) -> InvalidData:
        return invalid(at // per_row, expected, received)

    if values.null_count:
        raise invalid_value(values.is_null().index(True).as_py(), "a value", "none")
    scalars = _scalars(values, replace(column, shape=()), invalid_value)
    return pa.FixedSizeListArray.from_arrays(scalars, per_row)


def _scalars(values: Any, column: Column, invalid: Invalid) -> Any:
    """Single values as they are stored."""
    if column.dtype == "string":
        return _text(values, invalid)
    try:
        return values.cast(storage_type(replace(column, shape=())))
    except pa.ArrowInvalid as error:
        if not pa.types.is_uint64(values.type):
            expected = f"numbers in the range of {column.dtype}, the type of other files"
            raise invalid(0, expected, str(error)[:MAX_MESSAGE]) from None
        at = pc.greater(values, pa.scalar(MAX_INT64, pa.uint64())).index(True).as_py()
        raise invalid(at, "integers below 2^63", str(values[at])) from None


def _text(values: Any, invalid: Invalid) -> Any:
    """Text and dates as bytes; Parquet files may contain text that is not UTF-8."""
    try:
        encoded = values.cast(pa.string()).cast(pa.binary())
    except pa.ArrowInvalid as error:
        expected = "text, or times in a known time zone"
        raise invalid(0, expected, str(error)[:MAX_MESSAGE]) from None
    try:
        encoded.cast(pa.string())
    except pa.ArrowInvalid:
        for row, value in enumerate(encoded.to_pylist()):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                raise invalid(row, "text in UTF-8", repr(value[:40])) from None
        raise
    return encoded


def pandas_index(schema: pa.Schema) -> list[str]:
    """The columns that are the index of a pandas frame, by its metadata."""
    try:
        columns = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return [column for column in columns if isinstance(column, str)]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return []


def class_names(schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """The class names of columns in the metadata that Hugging Face's datasets writes."""
    try:
        document = json.loads((schema.metadata or {})[b"huggingface"])
        features = document["info"]["features"].items()
        return {
            name: tuple(_printable(class_name) for class_name in feature["names"])
            for name, feature in features
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return {}


def _printable(name: object) -> str:
    """Text that can be encoded; JSON may contain halves of surrogate pairs."""
    return str(name).encode("utf-8", "replace").decode()
