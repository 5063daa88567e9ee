"""Shared fixtures of the tests of ampcore."""

import os
from collections.abc import Callable
from typing import Any

import pytest

# Before TensorFlow is imported by the first test that needs it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(scope="session")
def two_ranks() -> type:
    """Two ranks as one of them sees them; `other` makes the tensors of the other one."""
    import tensorflow as tf

    class TwoRanks:
        size, rank = 2, 1

        def __init__(self, other: Callable[[Any], Any] = lambda tensor: tensor) -> None:
            self.calls: list[str] = []
            self._other = other

        def all_reduce(self, tensors: Any, op: str = "mean") -> list[Any]:
            self.calls.append(op)
            pairs = [(tensor, self._other(tensor)) for tensor in tensors]
            return [
                {"mean": (a + b) / 2, "sum": a + b, "max": tf.maximum(a, b)}[op] for a, b in pairs
            ]

    return TwoRanks
