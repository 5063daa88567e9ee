"""Builds data files for the tests of the readers."""

import io
import struct
import zipfile

import numpy as np
from PIL import Image

from ampdata.tfrecord.tfrecord import masked_crc


def png(height, width, value=0, mode="RGB"):
    """A PNG file whose pixels all have one value."""
    return encoded("PNG", Image.new(mode, (width, height), (value,) * len(mode)))


def encoded(kind, image):
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def noise(height, width, channels=3, seed=0):
    """Pixels that a resize cannot reproduce by chance."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def png_of(pixels):
    return encoded("PNG", Image.fromarray(pixels.squeeze(-1) if pixels.shape[2] == 1 else pixels))


def write_zip(path, members, method=zipfile.ZIP_STORED):
    """A zip of names and contents."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def varint(number):
    number &= 2**64 - 1
    encoded_bytes = b""
    while number > 127:
        encoded_bytes += bytes([number & 127 | 128])
        number >>= 7
    return encoded_bytes + bytes([number])


def field(number, content):
    """A protobuf field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(**features):
    """An encoded tf.train.Example: bytes, or arrays of floats or integers."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = field(1, field(1, value))
        elif (values := np.asarray(value).ravel()).dtype.kind == "f":
            feature = field(2, field(1, values.astype("<f4").tobytes()))
        else:
            feature = field(3, field(1, b"".join(varint(int(value)) for value in values)))
        entries += field(1, field(1, name.encode()) + field(2, feature))
    return field(1, entries)


def record(content):
    """A record of a TFRecord file."""
    header = struct.pack("<Q", len(content))
    checksums = [struct.pack("<I", masked_crc(part)) for part in (header, content)]
    return header + checksums[0] + content + checksums[1]


def write_records(path, *examples):
    path.write_bytes(b"".join(map(record, examples)))
    return path
