"""Parses tf.train.Example from protobuf's encoding, without TensorFlow.

Example is `{1: Features}`, SequenceExample `{1: Features, 2: FeatureLists}`, Features
`{1: {1: name, 2: Feature} …}`, Feature one of `{1: BytesList, 2: FloatList, 3: Int64List}`, each
`{1: value …}`.

Source: https://protobuf.dev/programming-guides/encoding,
tensorflow/core/example/feature.proto
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

VARINT: Final = 0
FIXED_64: Final = 1
LENGTH: Final = 2
FIXED_32: Final = 5
MAX_VARINT_BYTES: Final = 10
VECTORIZED_BYTES: Final = 32
"""From this size NumPy decodes packed integers faster than a loop."""

Kind = Literal["bytes", "float", "int64", "steps"]
KINDS: Final[dict[int, Kind]] = {1: "bytes", 2: "float", 3: "int64"}


class Feature(NamedTuple):
    """The values of a feature: bytes, float32 (n,) or int64 (n,); empty for steps of a sequence."""

    kind: Kind
    values: list[bytes] | NDArray[np.float32] | NDArray[np.int64]


class Malformed(Exception):
    """Bytes are not an encoded tf.train.Example; the message says why."""


def parse_example(record: bytes) -> dict[str, Feature]:
    """The features of an example by name; those without values are left out. Raises Malformed."""
    features: dict[str, Feature] = {}
    for features_start, features_end in _messages(record, 0, len(record), 1):
        for start, end in _messages(record, features_start, features_end, 1):
            name, feature = _parse_entry(record, start, end)
            if feature is not None:
                features[name] = feature
    for lists_start, lists_end in _messages(record, 0, len(record), 2):
        for start, end in _messages(record, lists_start, lists_end, 1):
            name, _ = _parse_entry(record, start, end, is_step_list=True)
            features.setdefault(name, Feature("steps", []))
    return features


def _parse_entry(
    record: bytes, start: int, end: int, *, is_step_list: bool = False
) -> tuple[str, Feature | None]:
    """One entry of the map from names to features; only the name of a list of steps."""
    name, feature = "", None
    for number, wire, value, value_end in _fields(record, start, end):
        if wire != LENGTH:
            continue
        if number == 1:
            try:
                name = record[value:value_end].decode()
            except UnicodeDecodeError:
                raise Malformed("a feature's name is not UTF-8") from None
        elif number == 2 and not is_step_list:
            feature = _parse_feature(record, value, value_end)
    return name, feature


def _parse_feature(record: bytes, start: int, end: int) -> Feature | None:
    feature = None
    for number, wire, value, value_end in _fields(record, start, end):
        kind = KINDS.get(number)
        if wire != LENGTH or kind is None:
            continue
        if kind == "bytes":
            parts = [record[at:to] for at, to in _messages(record, value, value_end, 1)]
            feature = Feature(kind, parts) if parts else None
        else:
            parse = _parse_floats if kind == "float" else _parse_integers
            values = parse(record, value, value_end)
            feature = Feature(kind, values) if len(values) else None
    return feature


def _parse_floats(record: bytes, start: int, end: int) -> NDArray[np.float32]:
    """A FloatList: values are packed, or one by one."""
    packed = []
    for number, wire, value, value_end in _fields(record, start, end):
        if number != 1:
            continue
        if wire not in (LENGTH, FIXED_32) or (value_end - value) % 4:
            raise Malformed("a list of floats has other values")
        packed.append(record[value:value_end])
    return np.frombuffer(b"".join(packed), "<f4").astype(np.float32, copy=False)


def _parse_integers(record: bytes, start: int, end: int) -> NDArray[np.int64]:
    """An Int64List: values are packed, or one by one."""
    parts: list[NDArray[np.int64]] = []
    for number, wire, value, value_end in _fields(record, start, end):
        if number != 1:
            continue
        if wire not in (LENGTH, VARINT):
            raise Malformed("a list of integers has other values")
        parts.append(_unpack_varints(record, value, value_end))
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


def _unpack_varints(record: bytes, start: int, end: int) -> NDArray[np.int64]:
    """Integers of seven bits per byte, the lowest first; the highest bit continues an integer."""
    if end - start < VECTORIZED_BYTES:
        values = []
        while start < end:
            value, start = _varint(record, start, end)
            values.append(value)
        return np.array(values, np.uint64).view(np.int64)
    encoded = np.frombuffer(record, np.uint8, end - start, start)
    last = np.flatnonzero(encoded < 0x80)
    if not len(last) or last[-1] != len(encoded) - 1:
        raise Malformed("an integer is truncated")
    first = np.concatenate([[0], last[:-1] + 1])
    lengths = last - first + 1
    if lengths.max() > MAX_VARINT_BYTES:
        raise Malformed("an integer has more than 10 bytes")
    numbers = np.zeros(len(last), np.uint64)
    for at in range(int(lengths.max())):
        longer = lengths > at
        part = (encoded[first[longer] + at] & 0x7F).astype(np.uint64)
        numbers[longer] |= part << np.uint64(7 * at)
    return numbers.view(np.int64)


def _messages(record: bytes, start: int, end: int, field_number: int) -> Iterator[tuple[int, int]]:
    """The start and end of each field of this number. Raises Malformed for other wire types."""
    for number, wire, value, value_end in _fields(record, start, end):
        if number == field_number:
            if wire != LENGTH:
                raise Malformed(f"field {number} has wire type {wire}")
            yield value, value_end


def _fields(record: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The number and wire type of each field, and the start and end of its value."""
    while start < end:
        key, start = _varint(record, start, end)
        wire = key & 7
        if wire == VARINT:
            value, value_end = start, _varint(record, start, end)[1]
        elif wire == LENGTH:
            length, value = _varint(record, start, end)
            value_end = value + length
        elif wire in (FIXED_32, FIXED_64):
            value, value_end = start, start + (4 if wire == FIXED_32 else 8)
        else:
            raise Malformed(f"unknown wire type {wire}")
        if value_end > end:
            raise Malformed("a field is truncated")
        yield key >> 3, wire, value, value_end
        start = value_end


def _varint(record: bytes, start: int, end: int) -> tuple[int, int]:
    """An unsigned integer of 64 bits, and its end."""
    if start < end and (byte := record[start]) < 0x80:  # most keys and lengths have one byte
        return byte, start + 1
    value = shift = 0
    while start < end:
        byte = record[start]
        start += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, start
        shift += 7
        if shift >= 7 * MAX_VARINT_BYTES:
            raise Malformed("an integer has more than 10 bytes")
    raise Malformed("an integer is truncated")
