"""A small checkpoint, with one array of each dtype."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ampcore.checkpoint import Checkpoint, Manifest

DTYPES = [
    *(np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64),
    *(np.float16, ml_dtypes.bfloat16, np.float32, np.float64),
]


@pytest.fixture(scope="session")
def dtypes() -> list[Any]:
    """Every dtype that a checkpoint holds."""
    return DTYPES


@pytest.fixture(scope="session")
def make_checkpoint(job: Callable[..., Any]) -> Callable[..., Checkpoint]:
    """Makes checkpoints after so many steps; keyword arguments replace fields of the manifest."""

    def make(step: int = 7, arrays: dict[str, Any] | None = None, **fields: Any) -> Checkpoint:
        facts: dict[str, Any] = {
            "step": step,
            "spec": job().to_json(),
            "policy": "mixed_float16",
            "loss_scales": {"model": {"mode": "dynamic", "initial": 32768.0}},
            "engine": "graph",
            "device": "cpu",
            "versions": {"ampcore": "0.1.0", "numpy": np.__version__},
            "counters": {"skipped": 2},
        }
        if arrays is None:
            arrays = {np.dtype(dtype).name: np.arange(6).astype(dtype) for dtype in DTYPES}
        return Checkpoint(Manifest(**(facts | fields)), arrays)

    return make
