"""DeviceInfo: the properties of a device that decide its speed in 16 bits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

DeviceKind = Literal["cpu", "gpu", "xpu"]

TENSOR_CORES: Final = (7, 0)
"""The compute capability from which a GPU multiplies float16 matrices on Tensor Cores."""

BFLOAT16_CORES: Final = (8, 0)
"""The compute capability from which Tensor Cores take bfloat16 and TF32."""

FLOAT8_CORES: Final = (8, 9)
"""The compute capability from which Tensor Cores take float8."""

BFLOAT16_FEATURES: Final = frozenset({"avx512_bf16", "amx_bf16"})
FLOAT16_FEATURES: Final = frozenset({"avx512_fp16", "amx_fp16"})
"""The instruction sets with which a CPU multiplies 16-bit matrices faster than float32 ones."""


@dataclass(frozen=True)
class DeviceInfo:
    """One device; unknown properties are None."""

    kind: DeviceKind
    name: str = ""
    compute_capability: tuple[int, int] | None = None
    features: frozenset[str] = frozenset()
    """A CPU's instruction sets, as Linux names them."""
    memory_bytes: int | None = None

    def computes_fast_in(self, dtype: str) -> bool:
        """Whether `dtype` is faster than float32 on this device; True if unknown.

        Source: NVIDIA's CUDA C++ programming guide, "Tensor Core" by compute capability; oneDNN's
        table of data types by instruction set.
        """
        if dtype == "float32":
            return True
        if self.kind == "gpu":
            min_capability = TENSOR_CORES if dtype == "float16" else BFLOAT16_CORES
            return self.compute_capability is None or self.compute_capability >= min_capability
        if self.kind == "cpu":
            instruction_sets = FLOAT16_FEATURES if dtype == "float16" else BFLOAT16_FEATURES
            return bool(instruction_sets & self.features)
        return True

    @property
    def has_tf32(self) -> bool:
        """Whether it may compute float32 products in TF32; True for an unknown GPU."""
        capability = self.compute_capability
        return self.kind == "gpu" and (capability is None or capability >= BFLOAT16_CORES)

    @property
    def has_float8(self) -> bool:
        """Whether it is known to multiply 8-bit floating-point numbers.

        Source: NVIDIA's CUDA C++ programming guide, "Tensor Core" by compute capability.
        """
        capability = self.compute_capability
        return self.kind == "gpu" and capability is not None and capability >= FLOAT8_CORES

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> tuple[Self, ...]:
        """The devices in a worker's hardware as `diagnostics.hardware.describe` returns it.

        Unreadable parts are left out, since another version may have written the document.
        """
        features = frozenset(map(str, _items(document.get("cpu_features"))))
        memory = document.get("memory_bytes")
        return tuple(
            cls(
                kind=device["kind"],
                name=str(device.get("name", "")),
                compute_capability=_capability(device.get("compute_capability")),
                features=features if device["kind"] == "cpu" else frozenset(),
                memory_bytes=_int_or_none(
                    memory if device["kind"] == "cpu" else device.get("memory_bytes")
                ),
            )
            for device in _items(document.get("devices"))
            if isinstance(device, Mapping) and device.get("kind") in ("cpu", "gpu", "xpu")
        )


def choose_device(devices: Sequence[DeviceInfo], device_kind: str) -> DeviceInfo | None:
    """The device of a machine on which a job with this `runtime.device` runs, if any."""
    order = ("gpu", "xpu", "cpu") if device_kind == "auto" else (device_kind,)
    ranked = (device for kind in order for device in devices if device.kind == kind)
    return next(ranked, None)


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _capability(value: object) -> tuple[int, int] | None:
    match value:
        case [int(major), int(minor)]:
            return major, minor
    return None
