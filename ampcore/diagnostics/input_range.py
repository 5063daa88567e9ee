"""Warns of inputs whose range does not suit 16-bit layers."""

from typing import Final

import numpy as np
import tensorflow as tf

from ampcore.data import Examples
from ampcore.data.batches import BatchSource
from ampcore.precision import LayerPolicies
from ampcore.preflight import Finding
from ampcore.spec.text import join_names

ROWS: Final = 256
"""The first examples, which are looked at."""
LARGEST: Final = 32.0
"""Normalized inputs are rarely above 5; pixels go up to 255."""


def input_range_finding(
    examples: Examples | BatchSource, policies: LayerPolicies
) -> Finding | None:
    """A warning if the first training inputs are far from unit range and layers have 16 bits.

    Batches that arrive in an order of their own are not looked at: reading them would lose them.
    """
    if not policies.compute_dtypes or isinstance(examples, BatchSource):
        return None
    rows = examples.read(np.arange(min(ROWS, len(examples))))
    arrays = [np.asarray(part) for part in tf.nest.flatten(rows.x)]
    floats = [np.abs(array) for array in arrays if array.dtype.kind == "f"]
    largest = max((float(part.max(initial=0.0)) for part in floats), default=0.0)
    if largest <= LARGEST:
        return None
    dtypes = join_names(sorted(policies.compute_dtypes))
    return Finding(
        "inputs_far_from_unit_range",
        "warning",
        "/data",
        f"The inputs of the first {len(rows.parts[0])} examples reach {largest:,.6g}: in {dtypes} "
        "the first layers lose precision or overflow. Rescale them: data.preprocessing with "
        "rescaling or normalize, or a layer of the model.",
        {"largest": largest},
    )
