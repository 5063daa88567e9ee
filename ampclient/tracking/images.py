"""Pictures that a program logs: arrays, Pillow images and files, as PNG or JPEG files."""

import struct
import zlib
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ampclient.tracking.row_values import UnusableValue
from ampspec.jobs.run_images import MAX_IMAGE_BYTES, SIGNATURE_BYTES, image_ending

PNG: Final = b"\x89PNG\r\n\x1a\n"
COLOR_TYPES: Final = {1: 0, 3: 2, 4: 6}
"""Of PNG, by the number of channels: grey, RGB, RGB with alpha."""
CHANNELS: Final = tuple(COLOR_TYPES)


class EncodedImage(NamedTuple):
    """The file of a picture.

    Attributes:
        content: Its bytes.
        ending: `png` or `jpg`.
        clipped: How many values were outside of the range of a picture.
    """

    content: bytes
    ending: str
    clipped: int = 0


def encode_image(image: Any) -> EncodedImage:
    """The file of a picture: a PNG or JPEG file as it is, anything else as PNG without a loss.

    Args:
        image: The path of a PNG or JPEG file; an image of Pillow; or an array of shape (height,
            width) or (height, width, channels) with 1, 3 or 4 channels: integers from 0 to 255,
            floats from 0 to 1, or booleans. Tensors are converted.

    Raises:
        UnusableValue: It is none of these, or its file is too large.
    """
    if isinstance(image, str | PathLike):
        encoded = _read_file(Path(image))
    elif callable(getattr(image, "save", None)) and hasattr(image, "getbands"):
        buffer = BytesIO()
        image.save(buffer, "PNG")
        encoded = EncodedImage(buffer.getvalue(), "png")
    else:
        encoded = _encode_array(image)
    if (size := len(encoded.content)) > MAX_IMAGE_BYTES:
        raise UnusableValue(
            f"expected a file of at most {MAX_IMAGE_BYTES:,} bytes, received {size:,}; scale the "
            "picture down, or log the path of a JPEG file"
        )
    return encoded


def _read_file(path: Path) -> EncodedImage:
    try:
        if (size := path.stat().st_size) > MAX_IMAGE_BYTES:
            raise UnusableValue(
                f"expected a file of at most {MAX_IMAGE_BYTES:,} bytes, received {size:,}: {path}"
            )
        content = path.read_bytes()
    except OSError as error:
        raise UnusableValue(f"the file cannot be read: {error}") from error
    ending = image_ending(content[:SIGNATURE_BYTES])
    if ending is None:
        raise UnusableValue(f"expected a PNG or JPEG file, received {path}")
    return EncodedImage(content, ending)


def _encode_array(image: Any) -> EncodedImage:
    try:
        if callable(getattr(image, "detach", None)):  # a tensor of PyTorch
            image = image.detach().cpu()
        array = np.asarray(image)
    except Exception as error:  # whatever a tensor of another library raises
        raise UnusableValue(f"expected a picture, received {type(image).__name__}") from error
    if array.dtype.kind not in "buif":
        raise UnusableValue(f"expected a picture, received {type(image).__name__}")
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.ndim != 3 or array.shape[2] not in CHANNELS or not array.size:
        hint = ""
        if array.ndim == 3 and array.shape[0] in CHANNELS:
            hint = "; move the channels to the end"
        raise UnusableValue(
            "expected the shape (height, width) or (height, width, channels) with 1, 3 or 4 "
            f"channels, received {np.shape(image)}{hint}"
        )
    pixels, clipped = _pixels(array)
    return EncodedImage(_png(pixels), "png", clipped)


def _pixels(array: NDArray[Any]) -> tuple[NDArray[np.uint8], int]:
    """The values from 0 to 255, and how many were outside of their range; NaN is black."""
    if array.dtype == np.uint8:
        return array, 0
    top = 255 if array.dtype.kind in "iu" else 1
    values = array.astype(np.float64)
    outside = int((~((values >= 0) & (values <= top))).sum())
    values = np.clip(np.nan_to_num(values, nan=0.0), 0, top) * (255 / top)
    return np.rint(values).astype(np.uint8), outside


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file, https://www.w3.org/TR/png-3/ (Pillow is not part of the client)."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOR_TYPES[channels], 0, 0, 0)
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with filter 0
    lines[:, 1:] = pixels.reshape(height, -1)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return PNG + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
