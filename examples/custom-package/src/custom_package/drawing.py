"""Draws discs with NumPy alone, so that a script that uses the trained model needs nothing else."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def draw_discs(
    examples: int, size: int, noise: float, seed: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Images (n, size, size, 1), float32, and the radius of each disc as a share of the size."""
    random = np.random.default_rng(seed)
    radius = random.uniform(0.1, 0.5, examples).astype(np.float32)
    across = np.linspace(-0.5, 0.5, size, dtype=np.float32)
    distance = np.hypot(across[:, np.newaxis], across)
    images = (distance <= radius[:, np.newaxis, np.newaxis]).astype(np.float32)
    images += noise * random.standard_normal(images.shape, dtype=np.float32)
    return images[..., np.newaxis], radius
