"""A worker's metrics: stored steps, write lag, busy slots, peak memory, and GPU usage."""

import logging
import resource
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

log = logging.getLogger(__name__)

KIB: Final = 1024


def peak_memory(trainer_peak_bytes: int) -> dict[str, int]:
    """Peak memory in bytes: of this process, and of the largest trainer that has ended."""
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else KIB
    worker_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"worker_peak_bytes": worker_peak_bytes, "trainer_peak_bytes": trainer_peak_bytes}


class Gpus:
    """The NVIDIA GPUs of this machine, read with NVML; none without a driver."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: Sequence[Any] | None = None

    def reading(self) -> list[dict[str, Any]]:
        """Memory and utilization of each GPU; an empty list when the driver fails."""
        if self._handles is None:
            self._handles = self._open_gpus()
        try:
            return [self._read_gpu(index, handle) for index, handle in enumerate(self._handles)]
        except Exception as error:  # for example a GPU that fell off the bus
            log.warning("cannot read the GPUs' usage: %s", error)
            return []

    def _open_gpus(self) -> Sequence[Any]:
        try:
            import pynvml  # in the extra worker-gpu only

            pynvml.nvmlInit()
            self._nvml = pynvml
            count = range(pynvml.nvmlDeviceGetCount())
            return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in count]
        except Exception as error:
            log.debug("cannot open NVML: %s", error)
            return []

    def _read_gpu(self, index: int, handle: Any) -> dict[str, Any]:
        memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        return {
            "index": index,
            "name": self._nvml.nvmlDeviceGetName(handle),
            "memory_used_bytes": int(memory.used),
            "memory_total_bytes": int(memory.total),
            "utilization": self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
        }


class SlotMetrics:
    """Counters over all slots of a worker; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = 0
        self._lag_s = 0.0
        self._busy = 0

    def record_stored_steps(self, steps: int, lag_s: float) -> None:
        """Count committed steps; the first was read `lag_s` seconds before the commit."""
        with self._lock:
            self._steps += steps
            self._lag_s = max(self._lag_s, lag_s)

    @contextmanager
    def busy_slot(self) -> Iterator[None]:
        """Count a slot as busy inside this context."""
        with self._lock:
            self._busy += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def reading(self) -> dict[str, Any]:
        """The counters; `lag_s` is the largest lag since the last reading."""
        with self._lock:
            lag_s, self._lag_s = self._lag_s, 0.0
            return {"steps_total": self._steps, "lag_s": lag_s, "busy": self._busy}
