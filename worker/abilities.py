"""Which queues a worker serves: those it was told to, else those that its machine can run."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CPU: Final = ("default", "cpu")
GPU: Final = "gpu"


def queues(
    told: tuple[str, ...] | None,
    *,
    devices: Path = Path("/dev"),
    environment: Mapping[str, str] = os.environ,
) -> tuple[str, ...]:
    """The queues, in the order in which they are named."""
    if told is not None:
        return told
    return (*CPU, GPU) if _has_gpu(devices, environment) else CPU


def _has_gpu(devices: Path, environment: Mapping[str, str]) -> bool:
    """Whether there is an NVIDIA GPU that a trainer process may use; asks no driver."""
    hidden = environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    # /dev/dxg is how a GPU shows itself in Windows' Linux.
    found = any(devices.glob("nvidia[0-9]*")) or (devices / "dxg").exists()
    return found and not hidden
