"""Generates learnable data of any shape and size from a seed."""

import math
import sys
from dataclasses import replace

import numpy as np

from ampcore.data.dataset import Dataset
from ampcore.data.registry import LoadOptions, register
from ampspec.data.data import Synthetic

# Salts the generator, so that other users of the same seed draw other numbers.
SEED_SALT = 1


@register("synthetic")
def synthetic(spec: Synthetic, options: LoadOptions) -> Dataset:
    """Each example is the prototype of its class plus noise, both standard normal."""
    if math.prod((spec.examples, *spec.shape)) > sys.maxsize // np.dtype(np.float32).itemsize:
        raise MemoryError("the dataset is larger than the address space")
    random = np.random.default_rng([spec.split_seed, SEED_SALT])
    x = random.standard_normal((spec.examples, *spec.shape), dtype=np.float32)
    prototypes = random.standard_normal((spec.classes, *spec.shape), dtype=np.float32)
    labels = random.integers(spec.classes, size=spec.examples, dtype=np.int32)
    x += prototypes[labels]
    dataset = Dataset.split(x, labels, spec.classes, spec.validation_split)
    return replace(dataset, split_seed=spec.split_seed)
