"""The devices of this machine, the choice of one for a run, and the peak memory of the run."""

import ctypes
import os
import platform
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import tensorflow as tf

from ampspec.errors import UnsupportedDevice
from ampspec.precision.devices import TENSOR_CORES, DeviceInfo, DeviceKind

__all__ = [
    "CPU_FEATURES",
    "Device",
    "DeviceInfo",
    "PeakMemory",
    "describe",
    "device_info",
    "has_tensor_cores",
    "peak_memory",
    "select",
]

Device = DeviceKind

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
ACCELERATORS: Final = ("GPU", "XPU")
"""The device types other than the CPU, in order of preference; XPU is Intel's plugin."""

CPUINFO_PATH: Final = Path("/proc/cpuinfo")
PROCESS_STATUS: Final = Path("/proc/self/status")
MEMORY_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class PeakMemory:
    """The peak memory so far: of the `device`, or on a CPU of the whole `process`."""

    bytes: int
    of: Literal["device", "process"]


def describe() -> dict[str, Any]:
    """Devices, CPU features and memory as JSON values; takes no GPU memory."""
    model, flags = _cpu()
    cpu = {"kind": "cpu", "name": model, "cores": len(os.sched_getaffinity(0))}
    return {
        "devices": [cpu, *(_details(device) for device in _accelerators())],
        "cpu_features": [feature for feature in CPU_FEATURES if feature in flags],
        "memory_bytes": _host_memory_bytes(),
    }


def device_info(device: Device) -> DeviceInfo:
    """The device that `select` chose; the first of several equal ones."""
    devices = DeviceInfo.from_json(describe())
    return next((info for info in devices if info.kind == device), DeviceInfo(device))


def select(device: Literal["auto", "cpu", "gpu"]) -> Device:
    """Make TensorFlow use the device that a job asks for; `auto` prefers a GPU, then an XPU.

    Raises UnsupportedDevice when there is none, or when this process already uses another.
    """
    if device == "gpu" and not tf.config.list_physical_devices("GPU"):
        raise UnsupportedDevice(
            "runtime.device: expected a machine with a GPU, received one where TensorFlow finds "
            "none. Set it to auto or cpu, or run the job on a worker with a GPU."
        )
    accelerators = _accelerators()
    if not accelerators:
        return "cpu"
    if device == "cpu":
        _hide_accelerators()
        return "cpu"
    kind = accelerators[0].device_type
    if not tf.config.get_visible_devices(kind):
        raise UnsupportedDevice(
            f"runtime.device: this process has already hidden its {kind}s for another job; "
            "run the job in a new process."
        )
    return "gpu" if kind == "GPU" else "xpu"


def has_tensor_cores() -> bool:
    """Whether the first GPU computes float16 on Tensor Cores; True where it is not known."""
    gpus = tf.config.list_physical_devices("GPU")
    capability = _details(gpus[0])["compute_capability"] if gpus else None
    return capability is None or tuple(capability) >= TENSOR_CORES


def peak_memory(device: Device) -> PeakMemory:
    """The peak memory of TensorFlow on the first device of this kind.

    On a CPU, where TensorFlow does not track it: the peak resident set of this process, including
    libraries and data.
    """
    if device == "cpu":
        return PeakMemory(_peak_resident_bytes(), "process")
    try:
        peak = tf.config.experimental.get_memory_info(f"{device.upper()}:0")["peak"]
    except (ValueError, tf.errors.OpError):  # a plugin device without memory statistics
        return PeakMemory(_peak_resident_bytes(), "process")
    return PeakMemory(int(peak), "device")


def _accelerators() -> list[Any]:
    return [device for kind in ACCELERATORS for device in tf.config.list_physical_devices(kind)]


def _hide_accelerators() -> None:
    try:
        for kind in ACCELERATORS:
            tf.config.set_visible_devices([], kind)
    except RuntimeError:
        raise UnsupportedDevice(
            "runtime.device: TensorFlow already uses the GPU in this process; "
            "run the job in a new process."
        ) from None


def _details(device: Any) -> dict[str, Any]:
    details = tf.config.experimental.get_device_details(device)
    capability = details.get("compute_capability")
    is_gpu = device.device_type == "GPU"
    return {
        "kind": device.device_type.lower(),
        "name": details.get("device_name", device.name),
        "compute_capability": list(capability) if capability else None,
        "memory_bytes": _cuda_memory_bytes(int(device.name.rpartition(":")[2])) if is_gpu else None,
    }


def _cuda_memory_bytes(ordinal: int) -> int | None:
    """The size of a GPU's memory; None without CUDA's driver.

    TensorFlow knows it only once it has allocated the memory; the driver numbers the GPUs as
    TensorFlow does and needs no context for this.
    """
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    handle, size = ctypes.c_int(), ctypes.c_size_t()
    failed = (
        cuda.cuInit(0)
        or cuda.cuDeviceGet(ctypes.byref(handle), ordinal)
        or cuda.cuDeviceTotalMem_v2(ctypes.byref(size), handle)
    )
    return None if failed else size.value


def _host_memory_bytes() -> int:
    """The machine's memory, or the limit of this container if that is smaller."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(installed, int(MEMORY_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no control group, or "max"
        return installed


def _peak_resident_bytes() -> int:
    # getrusage would include the memory of the process before its exec.
    if PROCESS_STATUS.exists():
        for line in PROCESS_STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _cpu() -> tuple[str, frozenset[str]]:
    """The processor's name and its feature flags; no flags without /proc/cpuinfo."""
    fields: dict[str, str] = {}
    if CPUINFO_PATH.exists():
        for line in CPUINFO_PATH.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip(), value.strip())
    name = fields.get("model name") or platform.processor() or platform.machine()
    return name, frozenset(fields.get("flags", "").split())
