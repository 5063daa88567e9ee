"""Which images are rows of which split, and their labels or masks, by folders and names.

The layouts, each also below `train`, `validation` and `test`, and below one folder with the name of
the data: `CLASS/*.png`, `images/*.png` and `masks/*.png` (also `image` and `label` and so on), or
only files.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ampdata.images.image_files import FilePath
from ampdata.source import LeftOut, Split
from ampdata.split_names import file_split, folder_split, in_order, pattern_split
from ampspec.documents.text import join_names
from ampspec.errors import InvalidData

SUFFIXES: Final = (".png", ".jpg", ".jpeg")
OTHER_PICTURES: Final = (
    ".gif",
    ".bmp",
    ".webp",
    ".tif",
    ".tiff",
    ".heic",
    ".avif",
    ".jp2",
    ".ppm",
)
"""Unsupported pictures; skipping them would silently change the data."""
IMAGES: Final = frozenset({"images", "image", "imgs", "img", "jpegimages"})
MASKS: Final = frozenset(
    {"masks", "mask", "labels", "label", "annotations", "segmentations", "segmentation"}
    | {"segmentationclass", "trimaps", "gt", "groundtruth", "ground_truth"}
)
"""The folders of images and of their masks, in lower case."""
MASK_ENDS: Final = re.compile(
    r"[_-](masks?|segmentation|seg|labels?|gt|groundtruth)$", re.IGNORECASE
)
"""Suffixes of mask names after the names of their images."""
MAX_NAMES: Final = 20
LAYOUT: Final = "images in a folder per class, in `images` and `masks`, or without folders"


@dataclass(frozen=True)
class ImagePath:
    """An image file, and its path below the folder of its split."""

    path: FilePath
    below: FilePath


Parts = Mapping[Split | None, Sequence[ImagePath]]


@dataclass(frozen=True)
class ImageRows:
    """The images of a split with their labels or masks."""

    images: Sequence[FilePath]
    labels: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    classes: tuple[str, ...] | None = None
    masks: Sequence[FilePath] = ()


def is_image(name: str) -> bool:
    """Whether a file name is that of a supported image."""
    return name.lower().endswith(SUFFIXES)


def is_picture(name: str) -> bool:
    """Whether a file name is that of an image, supported or not."""
    return name.lower().endswith((*SUFFIXES, *OTHER_PICTURES))


def list_images(name: str, paths: Sequence[FilePath]) -> list[ImagePath]:
    """All images, with paths below their common folders. Raises InvalidData."""
    images = [ImagePath(path, path) for path in paths if is_image(path[-1])]
    unsupported = ["/".join(path) for path in paths if path[-1].lower().endswith(OTHER_PICTURES)]
    if unsupported:
        raise InvalidData(
            name,
            None,
            expected="PNG and JPEG images only",
            received=f"{len(unsupported):,} of other kinds: {join_names(unsupported, MAX_NAMES)}",
        )
    if not images:
        raise InvalidData(name, None, expected="PNG or JPEG files", received="none")
    while len(tops := {image.below[0] for image in images}) == 1:
        (top,) = tops
        if any(len(image.below) == 1 for image in images) or folder_split(top):
            break
        images = [ImagePath(image.path, image.below[1:]) for image in images]
    return images


def classes_left_out(
    parts: Parts, classes: Sequence[str], folders: Iterable[FilePath]
) -> list[LeftOut]:
    """Folders without images beside those of classes, and classes without training images."""
    images = [image for part in parts.values() for image in part]
    with_images = {image.path[:depth] for image in images for depth in range(len(image.path))}
    empty = sorted(folder for folder in set(folders) - with_images if folder[:-1] in with_images)
    training = {_class_of(image) for image in parts.get("train", ()) if len(image.below) > 1}
    absent = [name for name in classes if name not in training] if "train" in parts else []
    return [
        *(
            LeftOut("/".join(folder), "a folder without images, which is not a class")
            for folder in empty
        ),
        *(LeftOut(name, "a class without images for training") for name in absent),
    ]


def by_split(name: str, images: Sequence[ImagePath], patterns: Mapping[Split, str]) -> Parts:
    """The images by split; under None if folders do not name splits.

    With patterns, other images are left out. Raises InvalidData for images beside several splits.
    """
    if patterns:
        parts = _divided(images, lambda image: pattern_split("/".join(image.below), patterns))
        parts.pop(None, None)
        if not parts:
            expected = f"images for {', '.join(patterns.values())}"
            raise InvalidData(name, "splits", expected=expected, received="none")
        depths: dict[Split | None, int] = {
            split: pattern.count("/") for split, pattern in patterns.items()
        }
        return {
            split: [ImagePath(image.path, image.below[depths[split] :]) for image in part]
            for split, part in parts.items()
        }
    images = _splits_first(images)
    # `seg_train` beside `seg_test`, but not `train` beside `bus`.
    parts = _divided(images, lambda image: file_split(image.below[0]))
    if not ("train" in parts and len(parts.keys() - {None}) > 1):
        parts = _divided(images, lambda image: folder_split(image.below[0]))
        if None in parts:
            return {None: images}
    if unassigned := parts.get(None):
        raise InvalidData(
            "/".join((name, *unassigned[0].path)),
            None,
            expected="a file in a folder train, validation or test, like the others, or the option "
            "`splits`",
            received="another folder",
        )
    return {split: [_without_split(image) for image in part] for split, part in parts.items()}


def _splits_first(images: Sequence[ImagePath]) -> Sequence[ImagePath]:
    """`images/train/1.png` and `masks/train/1.png` as `train/images/1.png` and so on."""
    if any(len(image.below) != 3 or not folder_split(image.below[1]) for image in images):
        return images
    if _pair_folders(sorted({image.below[0] for image in images})) is None:
        return images
    return [
        ImagePath(image.path, (image.below[1], image.below[0], image.below[2])) for image in images
    ]


def _divided(
    images: Sequence[ImagePath], split_of: Callable[[ImagePath], Split | None]
) -> dict[Split | None, list[ImagePath]]:
    """The images by split; those without a folder under None."""
    parts: dict[Split | None, list[ImagePath]] = defaultdict(list)
    for image in images:
        parts[split_of(image) if len(image.below) > 1 else None].append(image)
    return dict(parts)


def _without_split(image: ImagePath) -> ImagePath:
    """The image without the folder of its split, which some archives repeat."""
    first, *below = image.below
    while len(below) > 1 and below[0] == first:
        below = below[1:]
    return ImagePath(image.path, tuple(below))


def splits_of(parts: Parts) -> tuple[Split, ...]:
    """The splits of the images, in order."""
    return in_order(split for split in parts if split is not None)


def class_names(parts: Parts) -> tuple[str, ...]:
    """The class folders of all splits, so that a class has the same number in each.

    Names that differ only in the encoding of accents are one class.
    """
    images = [image for part in parts.values() for image in part if len(image.below) > 1]
    # Sorted by the original names: checkpoints rely on the class numbers.
    folders = sorted({image.below[0] for image in images})
    return tuple(dict.fromkeys(_normalized(folder) for folder in folders))


def _class_of(image: ImagePath) -> str:
    return _normalized(image.below[0])


def _normalized(name: str) -> str:
    return unicodedata.normalize("NFC", name)


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
    if (folders := _pair_folders(classes)) is not None:
        return _pair(name, images, *folders)
    numbers = {class_name: number for number, class_name in enumerate(classes)}
    ordered = sorted(images, key=lambda image: image.below)
    labels = np.array([numbers[_class_of(image)] for image in ordered], np.int32)
    return ImageRows([image.path for image in ordered], labels, classes)


def _pair_folders(classes: Sequence[str]) -> tuple[str, str] | None:
    """The folders of images and of masks; None for folders of classes."""
    if len(classes) != 2:
        return None
    images = [folder for folder in classes if folder.lower() in IMAGES]
    masks = [folder for folder in classes if folder.lower() in MASKS]
    return (images[0], masks[0]) if images and masks else None


def _pair(name: str, images: Sequence[ImagePath], image_folder: str, mask_folder: str) -> ImageRows:
    """Images and masks with the same name, up to the suffix. Raises InvalidData."""
    paths: dict[str, dict[str, FilePath]] = {image_folder: {}, mask_folder: {}}
    for image in sorted(images, key=lambda entry: _class_of(entry) == mask_folder):
        folder, file = _class_of(image), image.below[1]
        stem = _normalized(file.rpartition(".")[0])
        if folder == mask_folder and stem not in paths[image_folder]:
            without_end = MASK_ENDS.sub("", stem)
            stem = without_end if without_end in paths[image_folder] else stem
        if stem in paths[folder]:
            raise InvalidData(
                "/".join((name, *image.path)),
                None,
                expected=f"one file {stem} in {folder}",
                received="two",
            )
        paths[folder][stem] = image.path
    for folder, partner in ((image_folder, mask_folder), (mask_folder, image_folder)):
        for stem, path in paths[folder].items():
            if stem not in paths[partner]:
                raise InvalidData(
                    "/".join((name, *path)),
                    None,
                    expected=f"a file {stem} in {partner}",
                    received="none",
                )
    stems = sorted(paths[image_folder])
    return ImageRows(
        [paths[image_folder][stem] for stem in stems],
        masks=[paths[mask_folder][stem] for stem in stems],
    )
