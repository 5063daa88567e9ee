"""Columns of PNG and JPEG files: recognizes them, and keeps track of their sizes."""

from typing import Final

from ampdata.images.image_codec import image_size
from ampdata.place import Place

PNG: Final = b"\x89PNG\r\n\x1a\n"
JPEG: Final = b"\xff\xd8\xff"


def is_encoded_image(content: bytes) -> bool:
    """Whether bytes start like a PNG or JPEG file."""
    return content.startswith((PNG, JPEG))


class ImageSizes:
    """Whether all images of a column have the same size."""

    def __init__(self, max_pixels: int) -> None:
        self._max_pixels = max_pixels
        self._sizes: set[tuple[int, int]] = set()

    def add(self, content: bytes, place: Place) -> None:
        """Read the size of an image from its header. Raises InvalidData."""
        size = image_size(content, place, self._max_pixels)
        if len(self._sizes) < 2:
            self._sizes.add(size)

    @property
    def common(self) -> tuple[int, int]:
        """Height and width of all images; (0, 0) if they differ."""
        if len(self._sizes) != 1:
            return 0, 0
        (size,) = self._sizes
        return size
