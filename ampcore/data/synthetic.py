"""Data that can be learnt, of any shape and size, from nothing but a seed."""

import math
import sys
from pathlib import Path

import numpy as np

from ampcore.data.dataset import Dataset
from ampcore.data.registry import register
from ampcore.spec.data import Synthetic

# Salts the generator, so that other users of the job's seed draw other numbers.
STREAM = 1


@register("synthetic")
def synthetic(spec: Synthetic, seed: int, data_root: Path | None) -> Dataset:
    """Each example is its class's prototype plus as much noise, both standard normal."""
    if math.prod((spec.examples, *spec.shape)) > sys.maxsize // np.dtype(np.float32).itemsize:
        raise MemoryError("more bytes than an address can name")
    random = np.random.default_rng([seed, STREAM])
    x = random.standard_normal((spec.examples, *spec.shape), dtype=np.float32)
    prototypes = random.standard_normal((spec.classes, *spec.shape), dtype=np.float32)
    labels = random.integers(spec.classes, size=spec.examples, dtype=np.int32)
    x += prototypes[labels]
    return Dataset.split(x, labels, spec.classes, spec.validation_split)
