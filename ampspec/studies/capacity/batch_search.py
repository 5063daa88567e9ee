"""BatchSearch: the search for the largest batch of one policy, replayed from the jobs so far.

It brackets from below: it starts at a size that certainly runs, grows while jobs run, and halves
the gap between the largest size that ran and the smallest that did not. A second job confirms the
largest size, and jobs of its halves measure the throughput; if one of them fails, the search
continues below. The memory estimate only chooses the sizes. A job that ran out of memory did not
fit. A crash says less: at a size beyond the estimate it means the same; at another size a second
job decides.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import count
from typing import Final

from ampspec.api.study_requests import CapacityOptions
from ampspec.jobs import Reason
from ampspec.rules.data_rules import known_train_examples
from ampspec.studies.capacity.memory_model import (
    BATCH_MULTIPLE,
    USABLE_SHARE,
    MemoryModel,
    memory_model,
)
from ampspec.studies.plan import JobResult, Results, StudyContext

MAX_JOBS: Final = 48
AGAIN: Final = "/again"
"""The key suffix of a second job, after a crash that may have another cause than memory."""
CONFIRM: Final = "/confirm"
"""The key suffix of a second job of the largest size, which must run, too."""
START_SHARE: Final = 8
"""The first size takes at most one in this many parts of the memory, by the estimate."""
FAST_GROWTH: Final = 4
"""The factor between sizes that take less than half of the memory, by the estimate; later 2."""
THROUGHPUT_SIZES: Final = 6
"""Batch sizes whose throughput is measured: those of the search, and halves of the largest."""
CLOSE_SHARE: Final = 0.2
"""A half of the largest batch is not tried if the search has tried one as close to it."""


class LimitedBy(StrEnum):
    """Why no larger batch is known to fit; `limited_by` of the answer."""

    MEMORY = "memory"
    MAX_BATCH = "max_batch"
    DATA = "data"
    ESTIMATE = "estimate"
    TIME = "time"
    FAILURE = "failure"


class BatchSearch:
    """The search for the largest batch of one policy.

    Args:
        context: The context of the study.
        policy: The policy under which the jobs train.
        results: The results of all jobs that have ended, of any policy.
    """

    def __init__(
        self, context: StudyContext[CapacityOptions], policy: str, results: Results
    ) -> None:
        self._context, self._policy, self._results = context, policy, results
        self._model = memory_model(context.document, policy)
        self._examples = known_train_examples(context.spec.data, context.spec.model)
        self.ran: dict[int, JobResult] = {}
        """By batch size: the jobs that had enough memory."""
        self.did_not_fit: dict[int, JobResult] = {}
        """By batch size: the jobs that did not have enough memory."""
        self._crashed: list[int] = []
        """The sizes whose job crashed, so that a second job decides."""
        self.failure: JobResult | None = None
        """The job that ended the search, since it failed for another reason than memory."""
        self.keys = list(self._replay())
        """The needed jobs in order; jobs that have not ended come last."""

    @property
    def largest(self) -> int:
        """The largest size that ran and below which none failed to fit; 0: none."""
        return max((size for size in self.ran if not self._fails(size)), default=0)

    @property
    def smallest_failed(self) -> int | None:
        """The smallest size that did not fit."""
        return min(self.did_not_fit, default=None)

    @property
    def estimate(self) -> int | None:
        """The largest size that fits, by the estimate of the memory; None: not known."""
        memory = self._context.step_memory_bytes
        if self._model is None or memory is None:
            return None
        return self._model.largest_batch(memory)

    @property
    def limited_by(self) -> LimitedBy:
        """Why no larger batch is known to fit."""
        if self.failure is not None:
            return LimitedBy.TIME if self.failure.reason == Reason.TIMEOUT else LimitedBy.FAILURE
        return LimitedBy.MEMORY if self.did_not_fit else self._upper_bound()[1]

    @property
    def protects_machine(self) -> bool:
        """Whether a job that needs too much fails before the machine is out of memory."""
        limit, memory = self._context.memory_limit_bytes, self._context.device_memory_bytes
        if self._context.device != "cpu" or memory is None:
            return True
        return limit is not None and limit <= USABLE_SHARE * memory

    def _fails(self, size: int) -> bool:
        failed = self.smallest_failed
        return failed is not None and failed <= size

    def _replay(self) -> Iterator[str]:
        """The keys of the needed jobs, in the order in which the search requests them."""
        asked: set[str] = set()
        while self.failure is None and len(asked) < MAX_JOBS:
            keys = [key for key in self._next_keys() if key not in asked]
            if not keys:
                break
            yield from keys
            asked.update(keys)
            if any(key not in self._results for key in keys):
                return
            for key in keys:
                self._learn(self._results[key])
                self._decide(key, self._results[key])
        self._settle_crashes()

    def _next_keys(self) -> list[str]:
        """The jobs that are needed next."""
        if self._crashed:
            return [job_key(self._policy, size, AGAIN) for size in self._crashed]
        if (size := self._next_size()) is not None:
            return [job_key(self._policy, size)]
        halves = [job_key(self._policy, size) for size in self._halves()]
        if not self.did_not_fit or not self.largest:
            return halves
        # Near the limit it is chance what else is in memory at the same moment.
        return [job_key(self._policy, self.largest, CONFIRM), *halves]

    def _learn(self, result: JobResult) -> None:
        """Learn from the first job what the spec does not tell: examples and layer memory."""
        self._model = self._model or result.memory
        self._examples = self._examples or result.train_examples

    def _decide(self, key: str, result: JobResult) -> None:
        """Record whether the size of a job fits."""
        size = size_of_key(key)
        if size in self._crashed:
            self._crashed.remove(size)
        if result.had_enough_memory:
            self.ran[size] = result
        elif result.ran_out_of_memory:
            self.did_not_fit[size] = result
        elif not result.crashed:
            self.failure = result
        elif key.endswith((AGAIN, CONFIRM)) or self._is_beyond_estimate(size):
            self.did_not_fit[size] = result
        else:
            self._crashed.append(size)

    def _is_beyond_estimate(self, size: int) -> bool:
        return self.estimate is not None and size > self.estimate

    def _settle_crashes(self) -> None:
        """If no size ran and all jobs crashed, memory may not be the cause."""
        crashes = [result for result in self.did_not_fit.values() if result.crashed]
        if not self.ran and crashes and len(crashes) == len(self.did_not_fit):
            self.failure = self.failure or crashes[-1]

    def _next_size(self) -> int | None:
        """The next size of the search; None when the largest one is known well enough."""
        failed, largest = self.smallest_failed, self.largest
        if not largest:
            return self._first_size() if failed is None else _smaller(failed)
        if failed is None:
            return self._larger(largest)
        allowed = max(_step(largest), self._context.options.resolution * largest)
        if failed - largest <= allowed:
            return None
        return max(_round_down((largest + failed) // 2), largest + _step(largest))

    def _first_size(self) -> int:
        spec_size = self._context.spec.data.batch_size
        # Without an estimate the size in the spec may be too large.
        room = BATCH_MULTIPLE if self.estimate is None else self.estimate // START_SHARE
        size = max(min(_round_down(spec_size), _round_down(room)), BATCH_MULTIPLE)
        return min(size, self._upper_bound()[0])

    def _larger(self, largest: int) -> int | None:
        bound, _ = self._upper_bound()
        if largest >= bound:
            return None
        half = 0 if self.estimate is None else self.estimate // 2
        grown = max(2 * largest, min(FAST_GROWTH * largest, _round_down(half)))
        return min(grown, bound)

    def _upper_bound(self) -> tuple[int, LimitedBy]:
        """The largest size that may be tried, and what limits it."""
        options, spec = self._context.options, self._context.spec
        bounds = [(options.max_batch, LimitedBy.MAX_BATCH)]
        if self._examples is not None:
            bounds.append((self._examples // spec.train.accumulate, LimitedBy.DATA))
        if not self.protects_machine and (machine := self._machine_bound()) is not None:
            # Never below a size that ran or that certainly runs.
            smallest = max([BATCH_MULTIPLE, *self.ran])
            bounds.append((max(machine, smallest), LimitedBy.ESTIMATE))
        bound, limit = min(bounds)
        return max(_round_down(bound), 1), limit

    def _machine_bound(self) -> int | None:
        """The largest size that the machine has memory for, by the estimate and the peaks so far.

        A machine without free memory also kills other processes.
        """
        memory = self._context.device_memory_bytes
        models = [model for model in (self._model, self._measured_model()) if model is not None]
        if memory is None or not models:
            return None
        return min(model.largest_batch(memory) for model in models)

    def _measured_model(self) -> MemoryModel | None:
        """Memory by batch size, from the peaks of the smallest and the largest size that ran."""
        peaks = {size: result.number("peak_memory_bytes") for size, result in self.ran.items()}
        measurements = sorted((size, int(peak)) for size, peak in peaks.items() if peak is not None)
        if len(measurements) < 2:
            return None
        (small, low), (large, high) = measurements[0], measurements[-1]
        per_example = (high - low) // (large - small)
        return MemoryModel(low - per_example * small, per_example) if per_example > 0 else None

    def _halves(self) -> list[int]:
        """Halves of the largest size whose throughput is not known from a size nearby."""
        halves = (self.largest >> number for number in count(1))
        sizes: list[int] = []
        for half in halves:
            size = _round_down(half)
            if size < BATCH_MULTIPLE or len(sizes) + len(self.ran) >= THROUGHPUT_SIZES:
                break
            sizes.append(size)
        return [size for size in sizes if not _is_close(size, self.ran | self.did_not_fit)]


def job_key(policy: str, size: int, suffix: str = "") -> str:
    """The key of the job that tries a batch size; with a suffix, of the job that repeats it."""
    return f"{policy}/batch-{size}{suffix}"


def size_of_key(key: str) -> int:
    """The batch size that a job tries."""
    return int(key.removesuffix(AGAIN).removesuffix(CONFIRM).rpartition("-")[2])


def _round_down(size: int) -> int:
    """A multiple of 8, which Tensor Cores need; below 8: 4, 2, 1 or 0."""
    if size >= BATCH_MULTIPLE:
        return size // BATCH_MULTIPLE * BATCH_MULTIPLE
    return next((power for power in (4, 2, 1) if power <= size), 0)


def _step(size: int) -> int:
    """The distance from a size to the next larger one."""
    return size if size < BATCH_MULTIPLE else BATCH_MULTIPLE


def _smaller(failed: int) -> int | None:
    """Half of a size that did not fit; None below one example."""
    return _round_down(failed // 2) or None


def _is_close(size: int, tried: dict[int, JobResult]) -> bool:
    """Whether a tried size is close enough to have the same throughput."""
    return any(abs(tried_size - size) <= CLOSE_SHARE * size for tried_size in tried)
