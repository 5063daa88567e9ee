"""Splits the rows of data into those for training and those for validation.

The spec alone decides it: the same share, seed and number of rows give the same split.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEED_SALT: Final = 5
"""Salts the generator, so that other users of the same seed draw other numbers."""


def train_examples(examples: int, validation_split: float) -> int:
    """The number of training examples: without the last share for validation, as in Keras."""
    return int(examples * (1.0 - validation_split))


def split_rows(
    rows: int, validation_split: float, split_seed: int | None
) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
    """The rows for training and those for validation, counted from 0, both ascending.

    Args:
        rows: The number of all rows, also of those without a target.
        validation_split: `data.validation_split`.
        split_seed: `data.split_seed`; None for `validation_rows: last`.
    """
    import numpy as np  # which a server needs only for a few requests

    order = np.arange(rows)
    if validation_split and split_seed is not None:
        order = np.random.default_rng([split_seed, SEED_SALT]).permutation(rows)
    split_at = train_examples(rows, validation_split)
    return np.sort(order[:split_at]), np.sort(order[split_at:])
