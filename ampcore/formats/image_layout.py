"""Which images are rows of which split, and their labels or masks, by folders and names.

The layouts, each also below `train`, `validation` and `test`, and below one folder with the name of
the data: `CLASS/*.png`, `images/*.png` and `masks/*.png`, or only files.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ampcore.errors import InvalidData
from ampcore.formats.image_files import FilePath
from ampcore.formats.source import Split
from ampcore.formats.split_names import folder_split, in_order

SUFFIXES: Final = (".png", ".jpg", ".jpeg")
IGNORED_SUFFIXES: Final = (".txt", ".md", ".json", ".csv", ".html")
"""Descriptions next to the images."""
IMAGES: Final = "images"
MASKS: Final = "masks"
LAYOUT: Final = "images in a folder per class, in `images` and `masks`, or without folders"


@dataclass(frozen=True)
class ImagePath:
    """An image file, and its path below the folder of its split."""

    path: FilePath
    below: FilePath


Parts = Mapping[Split | None, Sequence[ImagePath]]


@dataclass(frozen=True)
class ImageRows:
    """The images of a split, and what belongs to each."""

    images: Sequence[FilePath]
    labels: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    classes: tuple[str, ...] | None = None
    masks: Sequence[FilePath] = ()


def is_image(name: str) -> bool:
    """Whether a file's name is that of an image."""
    return name.lower().endswith(SUFFIXES)


def list_images(name: str, paths: Sequence[FilePath]) -> list[ImagePath]:
    """All images, without the folders that they have in common. Raises InvalidData."""
    found = []
    for path in paths:
        if is_image(path[-1]):
            found.append(ImagePath(path, path))
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
        found = [ImagePath(image.path, image.below[1:]) for image in found]
    return found


def by_split(images: Sequence[ImagePath]) -> Parts:
    """The images by split; under None if not all of them are in folders of splits."""
    parts: dict[Split | None, list[ImagePath]] = defaultdict(list)
    for image in images:
        split = folder_split(image.below[0]) if len(image.below) > 1 else None
        if split is None:
            return {None: images}
        parts[split].append(ImagePath(image.path, image.below[1:]))
    return parts


def splits_of(parts: Parts) -> tuple[Split, ...]:
    """The splits of the images, in order."""
    return in_order({split for split in parts if split is not None})


def class_names(parts: Parts) -> tuple[str, ...]:
    """The folders of all splits, so that a class has the same number in each."""
    images = [image for part in parts.values() for image in part]
    return tuple(sorted({image.below[0] for image in images if len(image.below) > 1}))


def arrange(name: str, images: Sequence[ImagePath], classes: tuple[str, ...]) -> ImageRows:
    """The rows of a split, sorted by class and name. Raises InvalidData for another layout."""
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
        return ImageRows(sorted(image.path for image in images))
    if classes == (IMAGES, MASKS):
        return _pair(name, images)
    numbers = {one: number for number, one in enumerate(classes)}
    ordered = sorted(images, key=lambda image: image.below)
    labels = np.array([numbers[image.below[0]] for image in ordered], np.int32)
    return ImageRows([image.path for image in ordered], labels, classes)


def _pair(name: str, images: Sequence[ImagePath]) -> ImageRows:
    """Images and masks with the same name, up to the suffix. Raises InvalidData."""
    found: dict[str, dict[str, FilePath]] = {IMAGES: {}, MASKS: {}}
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
    return ImageRows(
        [found[IMAGES][stem] for stem in stems], masks=[found[MASKS][stem] for stem in stems]
    )
