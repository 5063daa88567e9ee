"""What a training takes of its machine: processor, memory and GPU, sampled from time to time."""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

CPU: Final = "cpu_cores"
"""The processor cores that the process and its children kept busy since the sample before."""
MEMORY: Final = "memory_bytes"
"""The resident memory of the process and its children."""
GPU: Final = "gpu_share"
"""The share of the time in which the GPU ran a kernel, of whatever process; of several the mean."""
GPU_MEMORY: Final = "gpu_memory_bytes"
"""The memory of the GPUs that is taken, by whatever process."""
EVERY_S: Final = 10.0
MAX_TIME_SHARE: Final = 0.002
"""Of the time of a run. Where a sample takes long, as beside many processes, they become rarer."""


class ProcessUsage:
    """Samples what this process takes, at most once in `every_s` seconds; the first one after that.

    Args:
        every_s: Seconds between two samples; None: none are taken.
        has_gpu: Whether to ask NVML about the GPUs, which needs `nvidia-ml-py`.
        clock: Seconds that pass.
    """

    def __init__(
        self,
        every_s: float | None = EVERY_S,
        *,
        has_gpu: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every_s, self._has_gpu, self._clock = every_s, has_gpu, clock
        self._sampled_at = clock()
        self._took_s = 0.0
        self._cpu_s: dict[int, float] | None = None
        self._gpus: list[Any] | None = None

    def sample_if_due(self) -> Mapping[str, float]:
        """The columns of a sample; empty if none is due, and without what cannot be read."""
        if self._every_s is None:
            return {}
        now = self._clock()
        elapsed_s = now - self._sampled_at
        if elapsed_s < max(self._every_s, self._took_s / MAX_TIME_SHARE):
            return {}
        self._sampled_at = now
        is_first = self._cpu_s is None
        sample = {**self._process(elapsed_s), **self._gpu()}
        # The first one loads the libraries, which no later one does.
        self._took_s = 0.0 if is_first else self._clock() - now
        return sample

    def _process(self, elapsed_s: float) -> dict[str, float]:
        import psutil

        memory_bytes, cpu_s = 0, {}
        try:
            process = psutil.Process()
            members = [process, *process.children(recursive=True)]
        except (psutil.Error, OSError):  # a sandbox that hides /proc
            return {}
        for member in members:
            with contextlib.suppress(psutil.Error):  # it has ended meanwhile
                times = member.cpu_times()
                cpu_s[member.pid] = times.user + times.system
                memory_bytes += member.memory_info().rss
        last_cpu_s, self._cpu_s = self._cpu_s, cpu_s
        columns: dict[str, float] = {MEMORY: float(memory_bytes)}
        if last_cpu_s is not None:
            used_s = sum(seconds - last_cpu_s.get(pid, 0.0) for pid, seconds in cpu_s.items())
            columns[CPU] = max(0.0, used_s / elapsed_s)
        return columns

    def _gpu(self) -> dict[str, float]:
        if not self._has_gpu:
            return {}
        try:
            import pynvml

            if self._gpus is None:
                pynvml.nvmlInit()
                count = pynvml.nvmlDeviceGetCount()
                self._gpus = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            if not self._gpus:
                return {}
            rates = [pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in self._gpus]
            memory = [pynvml.nvmlDeviceGetMemoryInfo(gpu).used for gpu in self._gpus]
        except Exception:  # without the library, a driver, or a GPU that answers
            self._has_gpu = False
            return {}
        return {GPU: sum(rates) / len(rates) / 100, GPU_MEMORY: float(sum(memory))}
