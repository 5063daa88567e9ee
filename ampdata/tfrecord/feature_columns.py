"""Converts the values of one feature of tf.train.Example to an Arrow column."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ampdata.images.encoded_images import ImageSizes, is_encoded_image
from ampdata.place import Place
from ampdata.source import Column, Dtype
from ampdata.tables.arrow_table import storage_type
from ampdata.tfrecord.tf_example import Feature, Kind
from ampspec.data.file_formats import RawBytes
from ampspec.documents.text import plural
from ampspec.errors import InvalidData

NUMBERS: Final[dict[Kind, Dtype]] = {"float": "float32", "int64": "int64"}


class OtherValues(InvalidData):
    """A record has another kind or number of values than the first records."""

    @classmethod
    def of(cls, error: InvalidData) -> "OtherValues":
        """The same error as one of this class."""
        return cls(error.source, error.field, expected=error.expected, received=error.received)


class FeatureColumn(ABC):
    """The values of one feature of all records."""

    stored: Column
    """The column as it is stored; `finish` may refine it."""

    @abstractmethod
    def check(self, feature: Feature, place: Place) -> Any:
        """The value to store. Raises InvalidData."""

    @property
    def may_miss(self) -> bool:
        """Whether a table can store a missing value."""
        return self.stored.shape == ()

    def to_arrow(self, values: Sequence[Any]) -> Any:
        """An Arrow array of checked values; None for missing ones."""
        return pa.array(values, storage_type(self.stored))

    def finish(self, missing: int) -> Column:
        """The column, once all values have been checked. Raises InvalidData."""
        return replace(self.stored, missing=missing)


class NumberColumn(FeatureColumn):
    """Floats or integers, the same number of them in each record."""

    def __init__(self, first: Feature) -> None:
        self._kind, self._length = first.kind, len(first.values)
        shape = () if self._length == 1 else (self._length,)
        self.stored = Column(shape, NUMBERS[first.kind])

    def check(self, feature: Feature, place: Place) -> Any:
        """An array (length,)."""
        if feature.kind != self._kind or len(feature.values) != self._length:
            error = place.invalid(
                f"{plural(self._length, 'value')} of kind {self._kind}, as in the first records",
                f"{plural(len(feature.values), 'value')} of kind {feature.kind}",
            )
            raise OtherValues.of(error)
        return feature.values

    def to_arrow(self, values: Sequence[Any]) -> Any:
        """Scalars, or lists of a fixed size."""
        dtype = storage_type(self.stored)
        if any(value is None for value in values):
            return pa.array([None if value is None else value[0] for value in values], dtype)
        flat = pa.array(np.concatenate(values))
        return flat if self._length == 1 else pa.FixedSizeListArray.from_arrays(flat, type=dtype)


class RawColumn(FeatureColumn):
    """Bytes that are arrays of a declared dtype and shape."""

    def __init__(self, raw: RawBytes) -> None:
        self._dtype = np.dtype(raw.dtype).newbyteorder("<")
        self._size = math.prod(raw.shape) * self._dtype.itemsize
        self.stored = Column(raw.shape, raw.dtype)

    def check(self, feature: Feature, place: Place) -> Any:
        """Bytes of the declared size."""
        value = _single_value(feature, place)
        if len(value) != self._size:
            raise place.invalid(f"{self._size:,} bytes, as `raw` declares", f"{len(value):,}")
        return value

    def to_arrow(self, values: Sequence[Any]) -> Any:
        """Scalars, or lists of a fixed size."""
        dtype = storage_type(self.stored)
        if any(value is None for value in values):
            numbers = [
                None if value is None else np.frombuffer(value, self._dtype)[0] for value in values
            ]
            return pa.array(numbers, dtype)
        flat = np.frombuffer(b"".join(values), self._dtype)
        if self.stored.dtype == "bool":
            flat = flat.view(np.uint8)
        flat = pa.array(flat.astype(flat.dtype.newbyteorder("=")))
        return pa.FixedSizeListArray.from_arrays(flat, type=dtype) if self.stored.shape else flat


class BytesColumn(FeatureColumn):
    """Bytes whose type all records decide together: images, text, or arrays of uint8."""

    def __init__(self, place: Place, max_pixels: int) -> None:
        self.stored = Column((), "string")
        self._place, self._sizes = place, ImageSizes(max_pixels)
        self._is_image = self._is_text = True
        self._lengths: set[int] = set()

    def check(self, feature: Feature, place: Place) -> Any:
        """The bytes."""
        value = _single_value(feature, place)
        if len(self._lengths) < 2:
            self._lengths.add(len(value))
        if self._is_image and is_encoded_image(value):
            self._is_text = False
            self._sizes.add(value, place)
            return value
        self._is_image = False
        self._is_text = self._is_text and _is_utf8(value)
        return value

    def finish(self, missing: int) -> Column:
        """Images, text or arrays of uint8. Raises InvalidData if the bytes are none of these."""
        if self._is_text and not self._is_image:
            return Column((), "string", missing=missing)
        if missing:
            raise self._place.invalid("text if values are missing", "other bytes")
        if self._is_image:
            return Column((*self._sizes.common, 0), "image")
        if len(self._lengths) == 1:
            return Column((min(self._lengths),), "uint8")
        raise self._place.invalid(
            "text, images, or bytes of one length in all records", "bytes of several lengths"
        )


def feature_column(
    first: Feature, raw: RawBytes | None, place: Place, pixels: int
) -> FeatureColumn:
    """The column for a feature.

    Args:
        first: The value in the first record with this feature.
        raw: The declared type of its bytes.
        place: The column in messages.
        pixels: Maximum number of pixels of an image.
    """
    if raw is not None:
        return RawColumn(raw)
    if first.kind == "bytes":
        return BytesColumn(place, pixels)
    return NumberColumn(first)


def _single_value(feature: Feature, place: Place) -> bytes:
    if feature.kind != "bytes" or len(feature.values) != 1:
        received = f"{plural(len(feature.values), 'value')} of kind {feature.kind}"
        raise OtherValues.of(place.invalid("1 value of kind bytes", received))
    return bytes(feature.values[0])


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
