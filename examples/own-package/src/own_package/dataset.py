"""Images of discs in noise, for a regression of their radius.

A job trains on them with `data: {kind: package, package: own-package, name: discs}`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ampcore.packages import PackageDataset


class Options(BaseModel):
    """The options of the dataset."""

    model_config = ConfigDict(extra="forbid")

    examples: int = Field(default=1000, ge=10, le=100_000)
    size: int = Field(default=16, ge=4, le=128)
    """Height and width of the images."""
    noise: float = Field(default=0.1, ge=0, le=10)


def build(options: Options, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The images (n, size, size, 1), float32, and the radius of each as a share of the size."""
    random = np.random.default_rng(seed)
    radius = random.uniform(0.1, 0.5, options.examples).astype(np.float32)
    across = np.linspace(-0.5, 0.5, options.size, dtype=np.float32)
    distance = np.hypot(across[:, np.newaxis], across)
    images = (distance <= radius[:, np.newaxis, np.newaxis]).astype(np.float32)
    images += options.noise * random.standard_normal(images.shape, dtype=np.float32)
    return images[..., np.newaxis], radius


discs = PackageDataset(build, Options)
