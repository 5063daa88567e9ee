"""Compares the losses of two runs, and checks how far they may be apart."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

FLOAT32_LIMIT: Final = 1e-5
PERTURBATION: Final = {"float32": 1e-7, "mixed_bfloat16": 2.0**-8, "mixed_float16": 2.0**-11}
"""By policy, what rounding a weight changes, as a share of the weight."""
TWINS: Final = 5
"""The twins of a chaotic model: of one alone the losses may come near again by chance."""
NEAR: Final = 0.05
"""How far the losses of a policy in 16 bits may be from those in float32, as a share of these."""
TIMES_TWIN: Final = 3.0
"""… or this many times as far as those of a twin whose weights are changed once:
a run rounds in each step, and so does Keras itself, in another way where it runs eagerly;"""
OF_KERAS: Final = 2.0
"""… or this many times as far as those of Keras in the same policy."""


def relative_difference(losses: ArrayLike, expected: ArrayLike) -> float:
    """The largest difference, as a share of the loss; of one near zero, of the largest loss."""
    values, others = np.asarray(losses, np.float64), np.asarray(expected, np.float64)
    floor = 0.01 * np.abs(others).max(initial=1e-30)
    return float((np.abs(values - others) / np.maximum(np.abs(others), floor)).max())


def distance_of_ends(losses: ArrayLike, expected: ArrayLike) -> float:
    """The difference of the mean losses of the second half, as a share of the largest loss."""
    values, others = np.asarray(losses, np.float64), np.asarray(expected, np.float64)
    half = len(others) // 2
    return float(
        abs(values[half:].mean() - others[half:].mean()) / np.abs(others).max(initial=1e-30)
    )
