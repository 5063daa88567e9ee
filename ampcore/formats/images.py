"""Reads images in a folder or a .zip: a folder per class, or `images` with `masks`.

The layouts, each also below `train`, `validation` and `test`, and below one folder with the name of
the data: `CLASS/*.png` (columns `image` and `label`), `images/*.png` and `masks/*.png` (`image` and
`mask`), or only files (`image`).
"""

import json
import os
import pathlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ampcore.errors import InvalidData
from ampcore.formats.cache import converted
from ampcore.formats.decoding_threads import DecodingThreads
from ampcore.formats.files import DataFile, is_ignored, list_folder, open_file
from ampcore.formats.image_codec import decode_image, decode_mask, image_size
from ampcore.formats.place import Place
from ampcore.formats.source import (
    Array,
    Column,
    Indices,
    Request,
    Source,
    Split,
    choose_columns,
    choose_split,
)
from ampcore.formats.split_names import folder_split, in_order
from ampcore.formats.zip_members import Member, ZipMembers
from ampcore.spec.file_formats import ImagesOptions

SUFFIXES: Final = (".png", ".jpg", ".jpeg")
IGNORED_SUFFIXES: Final = (".txt", ".md", ".json", ".csv", ".html")
"""Descriptions next to the images."""
IMAGES: Final = "images"
MASKS: Final = "masks"
SIZES: Final = "sizes.json"
START_BYTES: Final = 65_536
LAYOUT: Final = "images in a folder per class, in `images` and `masks`, or without folders"

Path = tuple[str, ...]


class ImageFiles(Protocol):
    """The files of a folder or an archive."""

    paths: list[Path]

    def read(self, path: Path) -> bytes:
        """The content of a file. Raises InvalidData."""

    def start(self, path: Path) -> bytes:
        """The start of a file, which usually contains the size of the image."""

    def fingerprint(self) -> object:
        """What changes with the files."""

    def close(self) -> None:
        """Close open files."""


class FolderFiles:
    """The files below a folder."""

    def __init__(self, request: Request) -> None:
        """List them. Raises InvalidData."""
        self._request = request
        self.paths = list(list_folder(request.path, request.name, request.limits.files))

    def read(self, path: Path) -> bytes:
        """The content of a file. Raises InvalidData."""
        most = self._request.limits.record_bytes
        file = self._file(path)
        with open_file(file) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > most:
                raise InvalidData(
                    file.name, None, expected=f"at most {most:,} bytes", received=f"{size:,}"
                )
            return stream.read(most)

    def start(self, path: Path) -> bytes:
        """The start of a file. Raises InvalidData."""
        with open_file(self._file(path)) as stream:
            return stream.read(START_BYTES)

    def fingerprint(self) -> object:
        """The name, size and time of every file."""
        return [self._file(path).fingerprint() for path in self.paths]

    def close(self) -> None:
        """No file stays open."""

    def _file(self, path: Path) -> DataFile:
        return DataFile(self._request.path.joinpath(*path), "/".join((self._request.name, *path)))


class ZipFiles:
    """The files in an archive."""

    def __init__(self, request: Request) -> None:
        """Read the archive's directory. Raises InvalidData."""
        self._limits = request.limits
        self._file = DataFile(request.path, request.name)
        self._archive = ZipMembers(self._file, request.limits)
        self._members: dict[Path, Member] = {}
        for member in self._archive.members:
            path = tuple(member.name.split("/"))
            if path[-1] and not any(map(is_ignored, path)):
                self._members[path] = member
        self.paths = sorted(self._members)

    def read(self, path: Path) -> bytes:
        """The content of a member. Raises InvalidData."""
        return self._archive.read(self._members[path], self._limits.record_bytes)

    def start(self, path: Path) -> bytes:
        """The start of a member. Raises InvalidData."""
        return next(self._archive.blocks(self._members[path]), b"")[:START_BYTES]

    def fingerprint(self) -> object:
        """The name, size and time of the archive."""
        return self._file.fingerprint()

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()


@dataclass(frozen=True)
class _Image:
    """An image file, and its path below the folder of its split."""

    path: Path
    below: Path


_Parts = Mapping[Split | None, Sequence[_Image]]


@dataclass(frozen=True)
class _Rows:
    """The images of a split, and what belongs to each."""

    images: Sequence[Path]
    labels: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    classes: tuple[str, ...] | None = None
    masks: Sequence[Path] = ()


class ImageSource(Source):
    """Images that are decoded when they are read."""

    def __init__(
        self, request: Request, options: ImagesOptions, files: ImageFiles, rows: _Rows
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

        self._threads.run(decode, len(rows))
        return values

    def _image(self, row: int) -> NDArray[np.uint8]:
        path = self._rows.images[row]
        most = self._request.limits.pixels
        return decode_image(self._files.read(path), self._options, self._place(path), most)

    def _mask(self, row: int) -> NDArray[np.uint8]:
        path = self._rows.masks[row]
        most = self._request.limits.pixels
        return decode_mask(self._files.read(path), self._options.size, self._place(path), most)

    def _common_size(self) -> tuple[int, int]:
        """The size of all images; (0, 0) for different ones if the request allows them."""
        key = ("image sizes", self._rows.images, self._files.fingerprint())
        folder = converted(self._request.cache, key, self._write_sizes)
        row, common, other = json.loads((folder / SIZES).read_text(encoding="utf-8"))
        if other == common:
            return common[0], common[1]
        if self._request.any_size:
            return 0, 0
        first = "/".join(self._rows.images[0])
        raise self._place(self._rows.images[row]).invalid(
            f"{common[0]} × {common[1]} pixels like {first}, or the option `size`",
            f"{other[0]} × {other[1]}",
        )

    def _write_sizes(self, folder: pathlib.Path) -> None:
        """The size of the first image, and the first other size with its row."""
        common = self._size(0)
        sizes = ((row, self._size(row)) for row in range(self.rows))
        row, other = next(((row, size) for row, size in sizes if size != common), (0, common))
        (folder / SIZES).write_text(json.dumps([row, common, other]), encoding="utf-8")

    def _size(self, row: int) -> tuple[int, int]:
        path, most = self._rows.images[row], self._request.limits.pixels
        try:
            return image_size(self._files.start(path), self._place(path), most)
        except InvalidData:  # the size may be behind long metadata
            return image_size(self._files.read(path), self._place(path), most)

    def _place(self, path: Path) -> Place:
        return Place("/".join((self._request.name, *path)), None)


def images_splits(request: Request, options: ImagesOptions) -> tuple[Split, ...]:
    """The splits in the names of folders. Raises InvalidData."""
    files = _list_files(request)
    try:
        return _splits(_by_split(_images(request.name, files)))
    finally:
        files.close()


def open_images(request: Request, options: ImagesOptions) -> ImageSource:
    """The images of a split, sorted by class and name. Raises InvalidData."""
    files = _list_files(request)
    try:
        parts = _by_split(_images(request.name, files))
        split = choose_split(request.name, _splits(parts), request.split)
        rows = _arrange(request.name, parts[split], _classes(parts))
        return ImageSource(request, options, files, rows)
    except BaseException:
        files.close()
        raise


def is_image(name: str) -> bool:
    """Whether a file's name is that of an image."""
    return name.lower().endswith(SUFFIXES)


def _list_files(request: Request) -> ImageFiles:
    return FolderFiles(request) if request.path.is_dir() else ZipFiles(request)


def _images(name: str, files: ImageFiles) -> list[_Image]:
    """All images, without the folders that they have in common. Raises InvalidData."""
    found = []
    for path in files.paths:
        if is_image(path[-1]):
            found.append(_Image(path, path))
        elif not path[-1].lower().endswith(IGNORED_SUFFIXES):
            raise InvalidData(
                "/".join((name, *path)),
                None,
                expected="PNG and JPEG files only",
                received="a file of another kind",
            )
    if not found:
        raise InvalidData(name, None, expected="PNG or JPEG files", received="none")
    while len(tops := {image.below[0] for image in found}) == 1:
        (top,) = tops
        if any(len(image.below) == 1 for image in found) or folder_split(top):
            break
        found = [_Image(image.path, image.below[1:]) for image in found]
    return found


def _by_split(images: Sequence[_Image]) -> _Parts:
    """The images by split; under None if not all of them are in folders of splits."""
    parts: dict[Split | None, list[_Image]] = defaultdict(list)
    for image in images:
        split = folder_split(image.below[0]) if len(image.below) > 1 else None
        if split is None:
            return {None: images}
        parts[split].append(_Image(image.path, image.below[1:]))
    return parts


def _splits(parts: _Parts) -> tuple[Split, ...]:
    return in_order({split for split in parts if split is not None})


def _classes(parts: _Parts) -> tuple[str, ...]:
    """The folders of all splits, so that a class has the same number in each."""
    images = [image for part in parts.values() for image in part]
    return tuple(sorted({image.below[0] for image in images if len(image.below) > 1}))


def _arrange(name: str, images: Sequence[_Image], classes: tuple[str, ...]) -> _Rows:
    depth = len(images[0].below)
    for image in images:
        if len(image.below) != depth or depth > 2:
            raise InvalidData(
                "/".join((name, *image.path)),
                None,
                expected=LAYOUT,
                received="a file in another folder",
            )
    if depth == 1:
        return _Rows(sorted(image.path for image in images))
    if classes == (IMAGES, MASKS):
        return _pair(name, images)
    numbers = {one: number for number, one in enumerate(classes)}
    ordered = sorted(images, key=lambda image: image.below)
    labels = np.array([numbers[image.below[0]] for image in ordered], np.int32)
    return _Rows([image.path for image in ordered], labels, classes)


def _pair(name: str, images: Sequence[_Image]) -> _Rows:
    """Images and masks with the same name, up to the suffix. Raises InvalidData."""
    found: dict[str, dict[str, Path]] = {IMAGES: {}, MASKS: {}}
    for image in images:
        folder, file = image.below
        stem = file.rpartition(".")[0]
        if stem in found[folder]:
            raise InvalidData(
                "/".join((name, *image.path)),
                None,
                expected=f"one file {stem} in {folder}",
                received="two",
            )
        found[folder][stem] = image.path
    for folder, other in ((IMAGES, MASKS), (MASKS, IMAGES)):
        for stem, path in found[folder].items():
            if stem not in found[other]:
                raise InvalidData(
                    "/".join((name, *path)),
                    None,
                    expected=f"a file {stem} in {other}",
                    received="none",
                )
    stems = sorted(found[IMAGES])
    return _Rows(
        [found[IMAGES][stem] for stem in stems], masks=[found[MASKS][stem] for stem in stems]
    )
