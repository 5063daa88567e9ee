"""Generates clicks from a seed, for the sparse embedding model.

The keys are drawn as in NVIDIA's SparseOperationKit example. Its labels are random and cannot be
learned; here they come from a hidden logistic model.
"""

import sys
from dataclasses import replace

import numpy as np

from ampcore.data.dataset import Dataset
from ampcore.data.registry import LoadOptions, register
from ampspec.data.data import SyntheticClicks
from ampspec.errors import InvalidData

# Salts the generator, so that other users of the same seed draw other numbers.
SEED_SALT = 3

LOGIT_DEVIATION = 4.0
"""The standard deviation of the hidden logits; knowing them gives about 87% accuracy."""


@register("synthetic_clicks")
def synthetic_clicks(spec: SyntheticClicks, options: LoadOptions) -> Dataset:
    """Keys (n, slots, nnz), int32, and labels 0 or 1.

    Slot s draws from its own `vocabulary` // `slots` keys, evenly: with the defaults from
    [102 s, 102 s + 102). Every key has a hidden standard normal weight; a label is 1 with the
    probability sigmoid(logit), the logit being the sum of its example's weights, scaled.
    """
    keys_per_slot = spec.vocabulary // spec.slots
    if keys_per_slot < 1:
        raise InvalidData(
            spec.kind,
            "vocabulary",
            expected=f"at least {spec.slots}, one key per slot",
            received=str(spec.vocabulary),
        )
    if spec.examples * spec.slots * spec.nnz > sys.maxsize // np.dtype(np.int32).itemsize:
        raise MemoryError("the dataset is larger than the address space")
    random = np.random.default_rng([spec.split_seed, SEED_SALT])
    keys = np.empty((spec.examples, spec.slots, spec.nnz), np.int32)
    logits = np.zeros(spec.examples, np.float32)
    for slot in range(spec.slots):
        weights = random.standard_normal(keys_per_slot, dtype=np.float32)
        drawn = random.integers(keys_per_slot, size=(spec.examples, spec.nnz), dtype=np.int32)
        logits += weights[drawn].sum(axis=1)
        keys[:, slot] = drawn + slot * keys_per_slot
    logits *= LOGIT_DEVIATION / np.sqrt(spec.slots * spec.nnz)
    labels = random.random(spec.examples, dtype=np.float32) < 1 / (1 + np.exp(-logits))
    dataset = Dataset.split(keys, labels, 2, spec.validation_split, spec.vocabulary)
    return replace(dataset, split_seed=spec.split_seed)
