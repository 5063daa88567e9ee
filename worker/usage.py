"""How much of its machine a worker uses: its memory, and the GPUs that it can see."""

import logging
import resource
import sys
from collections.abc import Sequence
from typing import Any, Final

log = logging.getLogger(__name__)

KIB: Final = 1024


def memory(trainer_peak_bytes: int) -> dict[str, int]:
    """Bytes at the peak: of this process, and of the largest trainer that has ended."""
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else KIB
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"worker_peak_bytes": own, "trainer_peak_bytes": trainer_peak_bytes}


class Gpus:
    """The NVIDIA GPUs of this machine, as their driver sees them; none where there is no driver."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: Sequence[Any] | None = None

    def reading(self) -> list[dict[str, Any]]:
        """For each GPU its memory and how busy it is; asks the driver."""
        if self._handles is None:
            self._handles = self._found()
        try:
            return [self._look_at(index, handle) for index, handle in enumerate(self._handles)]
        except Exception as error:  # NVML has an error for everything: a GPU fell off the bus
            log.warning("the GPUs could not be looked at: %s", error)
            return []

    def _found(self) -> Sequence[Any]:
        try:
            import pynvml  # in the extra worker-gpu only

            pynvml.nvmlInit()
            self._nvml = pynvml
            count = range(pynvml.nvmlDeviceGetCount())
            return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in count]
        except Exception as error:
            log.debug("no GPU can be looked at: %s", error)
            return []

    def _look_at(self, index: int, handle: Any) -> dict[str, Any]:
        memory = self._nvml.nvmlDeviceGetMemoryInfo(handle)
        return {
            "index": index,
            "name": self._nvml.nvmlDeviceGetName(handle),
            "memory_used_bytes": int(memory.used),
            "memory_total_bytes": int(memory.total),
            "utilization": self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
        }
