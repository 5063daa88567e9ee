"""The handwritten digits that come with ampcore; see digits.md for their source and licence."""

from dataclasses import replace
from importlib import resources

import numpy as np

from ampcore.data.dataset import Dataset
from ampcore.data.registry import LoadOptions, register
from ampdata.row_places import RowPlace
from ampspec.data.data import Digits

# Each pixel counts the ink in a block of 4 × 4 of the scanned bitmap.
PIXEL_MAX = np.float32(16)


@register("digits")
def digits(spec: Digits, options: LoadOptions) -> Dataset:
    """1,797 images of 8 × 8 × 1 with pixels from 0 to 1, in 10 classes."""
    with resources.files("ampcore.data").joinpath("digits.npz").open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        images, labels = archive["images"], archive["labels"]
    x = images.astype(np.float32)[..., np.newaxis] / PIXEL_MAX
    dataset = Dataset.split(x, labels, 10, spec.validation_split)
    return replace(dataset, place_of=lambda example: RowPlace(row=example + 1))
