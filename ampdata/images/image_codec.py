"""Decodes PNG and JPEG images with Pillow, with checks of their sizes before decoding."""

import io
import struct
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ampdata.place import Place
from ampspec.data.file_formats import ImageOptions
from ampspec.errors import InvalidData

FORMATS: Final = ("PNG", "JPEG")
FILTERS: Final = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
INVALID: Final = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    struct.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
"""The errors of Pillow for damaged or hostile files."""
MAX_CLASS: Final = 255
ORIENTATION: Final = 0x0112
"""The metadata tag with the rotation of a photo; cameras do not rotate the pixels."""
TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
EXCHANGES_SIDES: Final = 5
"""From this orientation on, height and width are swapped."""
OTHER_KINDS: Final = {
    b"GIF8": "a GIF image",
    b"BM": "a BMP image",
    b"II*\0": "a TIFF image",
    b"MM\0*": "a TIFF image",
    b"%PDF": "a PDF file",
    b"<": "a page of HTML or XML",
    b"version https://git-lfs": "a pointer of Git LFS instead of its content",
}
"""Common contents of files named like images, by their first bytes."""


def image_size(content: bytes, place: Place, max_pixels: int) -> tuple[int, int]:
    """Height and width from the image's header. Raises InvalidData."""
    with _open(content, place, max_pixels) as image:
        sides = image.height, image.width
        return sides[::-1] if _orientation(image) >= EXCHANGES_SIDES else sides


def decode_image(
    content: bytes, options: ImageOptions, place: Place, max_pixels: int
) -> NDArray[np.uint8]:
    """The pixels (height, width, channels) of an image, resized if the options say so.

    They are rotated according to their metadata. 16-bit images are reduced to the upper 8 bits.
    Raises InvalidData.
    """
    with _open(content, place, max_pixels) as image:
        try:
            converted = _convert(_upright(image), "L" if options.channels == 1 else "RGB")
            if options.size is not None:
                height, width = options.size
                if converted.size != (width, height):
                    converted = converted.resize((width, height), FILTERS[options.resample])
        except INVALID as error:
            raise _damaged(place, error) from None
    pixels = np.asarray(converted, np.uint8)
    return pixels.reshape(*pixels.shape[:2], options.channels)


def decode_mask(
    content: bytes, size: tuple[int, int] | None, place: Place, max_pixels: int
) -> NDArray[np.uint8]:
    """The class of each pixel (height, width): values of a grey image, indices of a palette.

    Resized without mixing classes. Raises InvalidData.
    """
    with _open(content, place, max_pixels) as image:
        try:
            image.load()
            mask = _upright(image)
            if image.mode not in ("L", "P", "1"):
                mask = Image.fromarray(_one_channel(mask, place))
            mask = mask.convert("L") if mask.mode == "1" else mask
            if size is not None and mask.size != size[::-1]:
                mask = mask.resize(size[::-1], Image.Resampling.NEAREST)
        except INVALID as error:
            raise _damaged(place, error) from None
        classes = np.array(mask, np.uint8)
        return classes // MAX_CLASS if image.mode == "1" else classes


def _one_channel(image: Image.Image, place: Place) -> NDArray[np.uint8]:
    """The values of a grey mask that is stored in colours, or in 16 bits. Raises InvalidData."""
    pixels = np.asarray(image)
    if image.mode in ("RGB", "RGBA", "LA"):
        colours = pixels[..., :3] if image.mode != "LA" else pixels[..., :1]
        pixels = colours[..., 0]
        is_grey = bool((colours == pixels[..., None]).all())
    else:
        is_grey = image.mode.startswith("I") and bool((pixels <= MAX_CLASS).all())
    if not is_grey:
        received = "colours" if pixels.dtype == np.uint8 else "values above 255"
        raise place.invalid(
            "a mask with one channel of 8 bits or a palette", f"mode {image.mode}, {received}"
        )
    return pixels.astype(np.uint8)


def thumbnail(content: bytes, max_side: int, place: Place, max_pixels: int) -> bytes:
    """The image as a PNG file whose sides are at most `max_side`. Raises InvalidData."""
    with _open(content, place, max_pixels) as image:
        try:
            small = _convert(_upright(image), "RGB")
            small.thumbnail((max_side, max_side))
        except INVALID as error:
            raise _damaged(place, error) from None
        return _encode(small)


def encode_pixels(pixels: NDArray[np.uint8], max_side: int) -> bytes:
    """Pixels (h, w), (h, w, 1) or (h, w, 3) as a PNG file whose sides are at most `max_side`."""
    image = Image.fromarray(pixels.squeeze(-1) if pixels.shape[2:] == (1,) else pixels)
    image.thumbnail((max_side, max_side))
    return _encode(image)


def _encode(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _open(content: bytes, place: Place, max_pixels: int) -> Image.Image:
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError:
        raise place.invalid("a PNG or JPEG image", _other_kind(content)) from None
    except INVALID as error:
        raise _damaged(place, error) from None
    if image.width * image.height > max_pixels:
        received = f"{image.height} × {image.width}"
        image.close()
        raise place.invalid(f"at most {max_pixels:,} pixels", received)
    return image


def _other_kind(content: bytes) -> str:
    if not content:
        return "an empty file"
    if content[8:12] == b"WEBP" or content[4:8] == b"ftyp":
        return "a WebP image" if content[8:12] == b"WEBP" else "a HEIC or AVIF image"
    return next(
        (kind for start, kind in OTHER_KINDS.items() if content.startswith(start)),
        "a file of another kind",
    )


def _orientation(image: Image.Image) -> int:
    """The orientation tag; 1 (upright) if it is missing or damaged."""
    # Without this check Pillow would decode a PNG to look for metadata behind its pixels.
    if "exif" in image.info:
        with suppress(*INVALID, KeyError, TypeError, OverflowError, AttributeError):
            orientation = image.getexif().get(ORIENTATION)
            return orientation if orientation in TURNS else 1
    return 1


def _upright(image: Image.Image) -> Image.Image:
    orientation = _orientation(image)
    return image.transpose(TURNS[orientation]) if orientation in TURNS else image


def _convert(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits; Pillow would clip them instead of scaling
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode == mode and "transparency" not in image.info:
        image.load()
        return image
    return image.convert(mode)


def _damaged(place: Place, error: Exception) -> InvalidData:
    return place.invalid("an undamaged image", str(error)[:200] or type(error).__name__)
