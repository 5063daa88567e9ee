"""Reads images in a folder or a .zip: the columns `image`, and `label` or `mask`."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ampdata.cache import converted, digest
from ampdata.decoding_threads import DecodingThreads, raise_bad_images
from ampdata.files import files_left_out
from ampdata.images.image_codec import decode_image, decode_mask, image_size
from ampdata.images.image_files import FilePath, ImageFiles, open_files
from ampdata.images.image_layout import (
    ImageRows,
    Parts,
    arrange,
    by_split,
    class_names,
    classes_left_out,
    is_image,
    list_images,
    splits_of,
)
from ampdata.place import Place
from ampdata.row_places import RowPlaces
from ampdata.source import (
    Array,
    Column,
    Indices,
    OpenRequest,
    Source,
    Split,
    choose_columns,
    choose_split,
)
from ampspec.data.file_formats import ImagesOptions
from ampspec.errors import InvalidData

SIZES: Final = "sizes.json"


class ImageSource(Source):
    """Images that are decoded when they are read."""

    def __init__(
        self, request: OpenRequest, options: ImagesOptions, files: ImageFiles, rows: ImageRows
    ) -> None:
        """Check the sizes of all images if they are not resized. Raises InvalidData."""
        self._request, self._options, self._files, self._rows = request, options, files, rows
        self._threads = DecodingThreads()
        self.rows = len(rows.images)
        height, width = options.size or self._common_size()
        available = {"image": Column((height, width, options.channels), "image")}
        if rows.classes is not None:
            available["label"] = Column((), "int32", rows.classes)
        if rows.masks:
            available["mask"] = Column((height, width), "uint8")
        names = choose_columns(request.name, available, request.columns)
        self.columns = {name: available[name] for name in names}

    def row_places(self) -> RowPlaces:
        """The file of every image."""
        names = ["/".join((self._request.name, *path)) for path in self._rows.images]
        return RowPlaces(names, None)

    def image_bytes(self, column: str, row: int) -> bytes:
        """The file of an image or mask."""
        paths = self._rows.masks if column == "mask" else self._rows.images
        if not paths or column == "label":
            raise KeyError(column)
        return self._files.read(paths[row])

    def image_name(self, column: str, row: int) -> str:
        """The path of an image or mask inside the folder or archive."""
        paths = self._rows.masks if column == "mask" else self._rows.images
        return "/".join(paths[row])

    def check(self) -> None:
        """Decode every image and mask. Raises InvalidData, which names all damaged ones."""

        def decode(item: int) -> None:
            row = item % self.rows
            self._image(row) if item < self.rows else self._mask(row)

        count = self.rows * (2 if self._rows.masks else 1)
        self._threads.run_all(decode, count, self._request.name)

    def close(self) -> None:
        """Close the archive."""
        self._threads.close()
        self._files.close()

    def _read(self, indices: Indices, columns: Mapping[str, Column]) -> dict[str, Array]:
        return {
            name: self._rows.labels[indices]
            if name == "label"
            else self._decode(name, column, indices.tolist())
            for name, column in columns.items()
        }

    def _decode(self, name: str, column: Column, rows: list[int]) -> Array:
        """Images or masks."""
        values = np.empty((len(rows), *column.shape), np.uint8)

        def decode(at: int) -> None:
            row = rows[at]
            pixels = self._mask(row) if name == "mask" else self._image(row)
            if pixels.shape != column.shape:
                paths = self._rows.masks if name == "mask" else self._rows.images
                raise self._place(paths[row]).invalid(
                    f"{column.shape[0]} × {column.shape[1]} pixels",
                    f"{pixels.shape[0]} × {pixels.shape[1]}",
                )
            values[at] = pixels

        pixels = None if self._options.size else math.prod(column.shape[:2])
        self._threads.run_all(decode, len(rows), self._request.name, pixels=pixels)
        return values

    def _image(self, row: int) -> NDArray[np.uint8]:
        path = self._rows.images[row]
        max_pixels = self._request.limits.pixels
        return decode_image(self._files.read(path), self._options, self._place(path), max_pixels)

    def _mask(self, row: int) -> NDArray[np.uint8]:
        path = self._rows.masks[row]
        max_pixels = self._request.limits.pixels
        return decode_mask(
            self._files.read(path), self._options.size, self._place(path), max_pixels
        )

    def _common_size(self) -> tuple[int, int]:
        """The size of all images; (0, 0) if sizes differ and the request allows it."""
        key = ("image sizes", digest(self._rows.images), self._files.fingerprint())
        folder = converted(self._request.cache, key, self._write_sizes)
        row, common_size, other_size = json.loads((folder / SIZES).read_text(encoding="utf-8"))
        if other_size == common_size:
            return common_size[0], common_size[1]
        if self._request.any_size:
            return 0, 0
        first = "/".join(self._rows.images[0])
        raise self._place(self._rows.images[row]).invalid(
            f"{common_size[0]} × {common_size[1]} pixels like {first}, or the option `size`",
            f"{other_size[0]} × {other_size[1]}",
        )

    def _write_sizes(self, folder: Path) -> None:
        """Write the size of the first image, and the first different size with its row.

        All headers are read, so that all bad files are reported at once.
        """
        sizes: dict[int, tuple[int, int]] = {}
        errors = []
        for row in range(self.rows):
            try:
                sizes[row] = self._size(row)
            except InvalidData as error:
                errors.append(error)
        raise_bad_images(self._request.name, errors)
        row = next((row for row, size in sizes.items() if size != sizes[0]), 0)
        (folder / SIZES).write_text(json.dumps([row, sizes[0], sizes[row]]), encoding="utf-8")

    def _size(self, row: int) -> tuple[int, int]:
        path, max_pixels = self._rows.images[row], self._request.limits.pixels
        try:
            return image_size(self._files.start(path), self._place(path), max_pixels)
        except InvalidData:  # the size may be behind long metadata
            return image_size(self._files.read(path), self._place(path), max_pixels)

    def _place(self, path: FilePath) -> Place:
        return Place("/".join((self._request.name, *path)), None)


def images_splits(request: OpenRequest, options: ImagesOptions) -> tuple[Split, ...]:
    """The splits in the names of folders. Raises InvalidData."""
    files = open_files(request)
    try:
        return splits_of(_parts(request, files))
    finally:
        files.close()


def open_images(request: OpenRequest, options: ImagesOptions) -> ImageSource:
    """The images of a split, sorted by class and name. Raises InvalidData."""
    files = open_files(request)
    try:
        parts = _parts(request, files)
        split = choose_split(request.name, splits_of(parts), request.split)
        rows = arrange(request.name, parts[split], class_names(parts))
        source = ImageSource(request, options, files, rows)
    except BaseException:
        files.close()
        raise
    other_files = [path[-1] for path in files.paths if not is_image(path[-1])]
    empty = classes_left_out(parts, rows.classes, files.folders) if rows.classes else []
    source.left_out = [*empty, *files_left_out(other_files, "images")]
    return source


def _parts(request: OpenRequest, files: ImageFiles) -> Parts:
    images = list_images(request.name, files.paths)
    return by_split(request.name, images, request.split_patterns)
