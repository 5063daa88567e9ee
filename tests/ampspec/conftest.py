"""Shared fixtures of the tests of ampspec, some of which build models."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from ampspec.jobs import JobSpec

# Before TensorFlow is imported by the first test that needs it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(scope="session")
def job() -> Callable[..., JobSpec]:
    """Makes specs: a small dense network on digits, with the named parts replaced.

    The ranges of its layers are not sampled: tracing that takes a third of such a short training.
    """

    def make(**parts: Any) -> JobSpec:
        document: dict[str, Any] = {
            "model": {"kind": "mlp", "hidden": [16]},
            "data": {"kind": "digits", "batch_size": 256},
            "telemetry": {"ranges": {"enabled": False}},
        }
        return JobSpec.parse(document | parts)

    return make
