"""Reads the framing of TFRecord files: lengths and CRC-32C checksums; also compressed by gzip.

Source: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

import struct
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from ampdata.files import DataFile, open_decompressed
from ampdata.limits import Limits
from ampspec.errors import InvalidData

HEADER: Final = struct.Struct("<QI")
CHECKSUM: Final = struct.Struct("<I")
MASK_DELTA: Final = 0xA282EAD8


def masked_crc(content: bytes) -> int:
    """The checksum in TFRecord files: CRC-32C, rotated and with a constant added."""
    crc = crc32c(content)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFF_FFFF


def starts_like_tfrecord(start: bytes) -> bool:
    """Whether the bytes are the header of a record with a correct checksum."""
    if len(start) < HEADER.size:
        return False
    _, crc = HEADER.unpack_from(start)
    return bool(crc == masked_crc(start[:8]))


def read_records(file: DataFile, limits: Limits) -> Iterator[bytes]:
    """The records of a file. Raises InvalidData, which names the number of a bad record."""
    with open_decompressed(file) as content:
        number = size = 0
        while header := content.read(HEADER.size):
            number += 1
            place = f"record {number}"
            if len(header) < HEADER.size or not starts_like_tfrecord(header):
                raise _invalid(file, place, "a length with its CRC-32C", "other bytes")
            length = HEADER.unpack(header)[0]
            size += length
            if length > limits.record_bytes:
                expected = f"at most {limits.record_bytes:,} bytes"
                raise _invalid(file, place, expected, f"{length:,}")
            if size > limits.cache_bytes:
                expected = f"at most {limits.cache_bytes:,} bytes in total"
                raise _invalid(file, place, expected, "more")
            record = content.read(length + CHECKSUM.size)
            if len(record) != length + CHECKSUM.size:
                raise _invalid(file, place, f"{length:,} bytes", "the end of the file")
            record, checksum = record[:length], record[length:]
            if CHECKSUM.unpack(checksum)[0] != masked_crc(record):
                raise _invalid(file, place, "its CRC-32C", "another checksum: it is damaged")
            yield record


def _invalid(file: DataFile, place: str | None, expected: str, received: str) -> InvalidData:
    return InvalidData(file.name, place, expected=expected, received=received)
