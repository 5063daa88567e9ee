"""Which queues a worker serves: the configured ones, else those whose jobs its machine can run."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CPU_QUEUES: Final = ("default", "cpu")
GPU_QUEUE: Final = "gpu"


def queues_to_serve(
    configured: tuple[str, ...] | None,
    *,
    devices: Path = Path("/dev"),
    environment: Mapping[str, str] = os.environ,
) -> tuple[str, ...]:
    """The configured queues, or `default` and `cpu`, with `gpu` where there is a GPU."""
    if configured is not None:
        return configured
    return (*CPU_QUEUES, GPU_QUEUE) if _has_gpu(devices, environment) else CPU_QUEUES


def _has_gpu(devices: Path, environment: Mapping[str, str]) -> bool:
    """Whether there is an NVIDIA GPU that a trainer process may use; asks no driver."""
    hidden = environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    # /dev/dxg is the GPU device of the Windows Subsystem for Linux.
    has_device = any(devices.glob("nvidia[0-9]*")) or (devices / "dxg").exists()
    return has_device and not hidden
