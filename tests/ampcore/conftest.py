"""Shared fixtures of the tests of ampcore."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.ampspec.conftest import job  # noqa: F401 - a fixture


@pytest.fixture(scope="session")
def two_replicas() -> type:
    """Two replicas as one of them sees them; `other` makes the tensors of the other one."""
    import tensorflow as tf

    class TwoReplicas:
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

    return TwoReplicas
