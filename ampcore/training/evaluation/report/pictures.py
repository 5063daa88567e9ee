"""Small PNG pictures of the inputs and masks that a report shows."""

import base64
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

Array = NDArray[Any]

SIDE: Final = 96
"""The longer side of a picture, in pixels."""
MIN_SIDE: Final = 8
BYTE_MAX: Final = 255
CHANNELS: Final = (1, 3, 4)
PALETTE: Final = np.array(
    [
        *([0, 0, 0], [230, 159, 0], [86, 180, 233], [0, 158, 115], [240, 228, 66]),
        *([0, 114, 178], [213, 94, 0], [204, 121, 167], [148, 103, 189], [127, 127, 127]),
    ],
    np.uint8,
)
"""The colours of the classes of a mask, class 0 is black; after Okabe and Ito (2008)."""


def as_picture(values: Array) -> Array | None:
    """An array as (height, width, channels); None if its shape is not that of a picture."""
    if values.ndim == 2:
        values = values[..., np.newaxis]
    if values.ndim != 3 or values.shape[-1] not in CHANNELS:
        return None
    return values if min(values.shape[:2]) >= MIN_SIDE else None


def picture(values: Array) -> dict[str, Any]:
    """A picture of an array, (height, width, channels).

    Returns:
        `png`: a data URL. `low` and `high`: what is black and white; of bytes 0 and 255.
    """
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values.reshape(-1)
    low, high = (0.0, float(BYTE_MAX))
    if values.dtype != np.uint8:
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    span = high - low or 1.0
    shares = (np.nan_to_num(values.astype(np.float64), posinf=high, neginf=low) - low) / span
    pixels = np.clip(np.rint(shares * BYTE_MAX), 0, BYTE_MAX).astype(np.uint8)
    return {"png": _data_url(_smaller(pixels, "area")), "low": low, "high": high}


def mask_picture(classes: Array) -> dict[str, Any]:
    """A picture of a mask, (height, width), in the colours of its classes."""
    pixels = PALETTE[classes % len(PALETTE)]
    return {"png": _data_url(_smaller(pixels, "nearest"))}


def _smaller(pixels: Array, method: str) -> Array:
    height, width = pixels.shape[:2]
    scale = SIDE / max(height, width)
    if scale >= 1:
        return pixels
    size = [max(1, round(height * scale)), max(1, round(width * scale))]
    resized = tf.image.resize(pixels, size, method).numpy()
    smaller: Array = np.clip(np.rint(resized), 0, BYTE_MAX).astype(np.uint8)
    return smaller


def _data_url(pixels: Array) -> str:
    png = tf.io.encode_png(pixels).numpy()
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
