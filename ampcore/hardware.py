"""What this machine can compute on, and the choice of one device for a run."""

import os
import platform
from pathlib import Path
from typing import Any, Final, Literal

import tensorflow as tf

from ampcore.errors import UnsupportedDevice

Device = Literal["cpu", "gpu"]

# The instruction sets that decide how fast 16-bit arithmetic is on a CPU.
CPU_FEATURES: Final = (
    "avx2",
    "avx512f",
    "avx512_bf16",
    "avx512_fp16",
    "amx_bf16",
    "amx_fp16",
    "amx_tile",
)
# Tensor Cores, without which float16 saves memory and no time.
TENSOR_CORES: Final = (7, 0)


def describe() -> dict[str, Any]:
    """Devices, CPU features and memory as JSON values; takes no GPU memory."""
    model, flags = _cpu()
    cpu = {"kind": "cpu", "name": model, "cores": len(os.sched_getaffinity(0))}
    gpus = [{"kind": "gpu", **_details(gpu)} for gpu in tf.config.list_physical_devices("GPU")]
    return {
        "devices": [cpu, *gpus],
        "cpu_features": [feature for feature in CPU_FEATURES if feature in flags],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def select(device: Literal["auto", "cpu", "gpu"]) -> Device:
    """Make TensorFlow use the device that a job asks for; `auto` prefers a GPU.

    Raises UnsupportedDevice when there is none, or when this process already uses another.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if device == "gpu" and not gpus:
        raise UnsupportedDevice(
            "runtime.device: expected a machine with a GPU; received one where TensorFlow sees "
            "none. Set it to auto or cpu, or run the job on a worker with a GPU."
        )
    if not gpus:
        return "cpu"
    if device == "cpu":
        _hide_gpus()
        return "cpu"
    if not tf.config.get_visible_devices("GPU"):
        raise UnsupportedDevice(
            "runtime.device: this process has already hidden its GPUs for another job; "
            "run the job in a new process."
        )
    return "gpu"


def has_tensor_cores() -> bool:
    """True when the first GPU computes float16 on Tensor Cores, as far as can be told."""
    gpus = tf.config.list_physical_devices("GPU")
    capability = _details(gpus[0]).get("compute_capability") if gpus else None
    return capability is None or tuple(capability) >= TENSOR_CORES


def _hide_gpus() -> None:
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError:
        raise UnsupportedDevice(
            "runtime.device: TensorFlow already uses the GPU in this process; "
            "run the job in a new process."
        ) from None


def _details(gpu: Any) -> dict[str, Any]:
    details = tf.config.experimental.get_device_details(gpu)
    capability = details.get("compute_capability")
    return {
        "name": details.get("device_name", gpu.name),
        "compute_capability": list(capability) if capability else None,
    }


def _cpu() -> tuple[str, frozenset[str]]:
    """The processor's name and its feature flags; the flags are empty where Linux's list is not."""
    listing = Path("/proc/cpuinfo")
    fields: dict[str, str] = {}
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    name = fields.get("model name") or platform.processor() or platform.machine()
    return name, frozenset(fields.get("flags", "").split())
