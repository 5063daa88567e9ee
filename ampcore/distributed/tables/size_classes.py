"""Sizes of tensors that ranks exchange when the number of rows is different in every step.

TensorFlow fixes the shape of an exchange at its first execution, for its instance key. So rows are
padded to one of a few sizes, on all ranks to the same, and each size has an instance key of its own
(Collectives). Neighbouring sizes differ by about a fifth, so the padding is small.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import tensorflow as tf

from ampcore.distributed.communicator import Communicator

Tensor = Any

SMALLEST: Final = 8
PER_DOUBLING: Final = 4
"""How many sizes there are between a number and its double."""
CLASSES: Final = 4 * 28
"""So many sizes: up to 2**31 rows."""


def _sizes() -> list[int]:
    return [round(SMALLEST * 2 ** (number / PER_DOUBLING)) for number in range(CLASSES)]


SIZES: Final[Sequence[int]] = tuple(min(size, 2**31 - 1) for size in _sizes())


class SizeClass(NamedTuple):
    """A size that all ranks have agreed on.

    Attributes:
        number: Its number among `SIZES`, an int32 scalar.
        size: The number of rows, an int32 scalar.
    """

    number: Tensor
    size: Tensor


def agree_on_sizes(communicator: Communicator, counts: Sequence[Tensor]) -> list[SizeClass]:
    """For each count the smallest size that is enough on all ranks; one exchange for all.

    Args:
        communicator: The ranks.
        counts: Int32 scalars: how many rows this rank has.
    """
    [largest] = communicator.all_reduce([tf.stack(counts)], "max")
    numbers = tf.searchsorted(tf.constant(SIZES, tf.int32), largest)
    sizes = tf.gather(tf.constant(SIZES, tf.int32), numbers)
    return [
        SizeClass(number, size)
        for number, size in zip(
            tf.unstack(numbers, len(counts)), tf.unstack(sizes, len(counts)), strict=True
        )
    ]
