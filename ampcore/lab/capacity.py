"""Studies of capacity: the largest batch, and the one from which on a larger one gains no speed.

The model of memory predicts the largest batch. Jobs confirm it: a job that dies of memory is a
measurement here. On a CPU no batch beyond the prediction is tried, since a machine without free
memory also kills other processes.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

from ampcore.api.studies import BatchMeasurement, CapacityAnswer, PolicyCapacity
from ampcore.api.study_requests import CapacityOptions
from ampcore.lab.memory_model import BATCH_MULTIPLE, MemoryModel, memory_model
from ampcore.lab.plan import DIVERGED, JobResult, Limit, PlannedJob, Question, Results
from ampcore.lab.policies import FLOAT32, policies_to_study, policy_sections
from ampcore.lab.precision import throughput
from ampcore.spec import Problem
from ampcore.spec.data_rules import known_train_examples
from ampcore.spec.devices import DeviceInfo
from ampcore.spec.text import plural

MAX_JOBS_PER_POLICY: Final = 24
THROUGHPUT_SIZES: Final = 6
"""Batch sizes whose throughput is measured: the largest, a half of it, a quarter, …"""
CLOSE_SHARE: Final = 0.2
"""A half of the largest batch is not tried if the search has tried one as close to it."""
SATURATED_SHARE: Final = 0.9
"""Of the highest throughput; a larger batch gains at most another ninth."""


class CapacityKind:
    """The kind `capacity`."""

    decided_by_results = True
    # Without the device's memory the search could fill that of a whole machine.
    allows_invalid_jobs = False
    compares_examples = False
    needs_device = True

    def policies(self, options: CapacityOptions, devices: Sequence[DeviceInfo]) -> tuple[str, ...]:
        """Float32, unless it is left out of the wanted ones, and the others."""
        others = policies_to_study(options.policies, devices)
        is_wanted = options.policies is None or FLOAT32 in options.policies or not others
        return (FLOAT32, *others) if is_wanted else others

    def limit(self, question: Question[CapacityOptions]) -> Limit | None:
        """None: the results decide how many jobs are needed."""
        return None

    def check(self, question: Question[CapacityOptions]) -> Sequence[Problem]:
        """None: the model of the request has checked the options."""
        return ()

    def jobs(self, question: Question[CapacityOptions], results: Results) -> Sequence[PlannedJob]:
        """The batch sizes tried so far, and for each policy the next ones."""
        return [
            PlannedJob(_key(policy, batch), _changes(question, policy, batch))
            for policy in question.policies
            for batch in _Search(question, policy, results).batches()
        ]

    def answer(self, question: Question[CapacityOptions], results: Results) -> CapacityAnswer:
        """The largest and the critical batch of every policy."""
        policies = [_Search(question, policy, results).answer() for policy in question.policies]
        found = "; ".join(f"{one.policy}: {one.largest_batch or 'none fits'}" for one in policies)
        return CapacityAnswer(
            summary=f"Largest batch by policy: {found}.",
            device=question.device,
            device_memory_bytes=question.device_memory_bytes,
            policies=policies,
        )


def _key(policy: str, batch: int) -> str:
    return f"{policy}/batch-{batch}"


def _changes(question: Question[CapacityOptions], policy: str, batch: int) -> dict[str, Any]:
    return {
        **policy_sections(question.document, policy, studied=question.policies),
        "data.batch_size": batch,
        "train.steps": question.options.steps,
        "train.checkpoint_every_s": None,
        # A second attempt would die of memory as the first one did.
        "runtime.max_attempts": 1,
    }


class _Search:
    """The search for the largest batch of one policy, replayed from the results so far."""

    def __init__(self, question: Question[CapacityOptions], policy: str, results: Results) -> None:
        self._question, self._policy, self._results = question, policy, results
        model = memory_model(question.document, policy)
        self._first_predicted = self._largest_batch(model)
        # The first job tells what the spec does not: the examples, and the layers' memory.
        own = [one for key, one in results.items() if key.startswith(f"{policy}/")]
        measured = next((one.memory for one in own if one.memory is not None), None)
        self.predicted = self._largest_batch(model or measured)
        examples = next((one.train_examples for one in own if one.train_examples), None)
        self.limit, self.limited_by = self._upper_limit(examples)
        self.fits = 0
        self.fails: int | None = None

    def batches(self) -> list[int]:
        """The batch sizes to try, in order; the last ones may not have ended."""
        tried: list[int] = []
        while (batch := self._next()) is not None and len(tried) < MAX_JOBS_PER_POLICY:
            tried.append(batch)
            result = self._results.get(_key(self._policy, batch))
            if result is None:
                return tried
            if not (result.had_enough_memory or result.ran_out_of_memory):
                return tried  # it failed for a reason that a smaller batch does not change
            if result.had_enough_memory:
                self.fits = batch
            else:
                self.fails = batch
        known = [batch for batch in tried if batch <= self.fits]
        halves = [half for half in self._throughput_batches() if not _is_close(half, known)]
        return [*tried, *halves]

    def answer(self) -> PolicyCapacity:
        """What the results say."""
        batches = self.batches()
        results = {batch: self._results[_key(self._policy, batch)] for batch in batches}
        measured = [_measurement(batch, result) for batch, result in sorted(results.items())]
        fitting = [one for one in measured if one.fits]
        failure = next(
            (
                one
                for one in results.values()
                if not (one.had_enough_memory or one.ran_out_of_memory)
            ),
            None,
        )
        limited_by = "failure" if failure else "memory" if self.fails else self.limited_by
        largest = max((one.batch_size for one in fitting), default=None)
        critical = _critical_batch(fitting)
        return PolicyCapacity(
            policy=self._policy,
            largest_batch=largest,
            limited_by=limited_by,
            smallest_failed=self.fails,
            predicted=self.predicted,
            critical_batch=critical,
            batches=measured,
            jobs=[result.job_id for result in results.values()],
            explanation=_explanation(largest, critical, self, limited_by, failure)
            + _divergence(list(results.values())),
        )

    def _largest_batch(self, model: MemoryModel | None) -> int | None:
        memory = self._question.device_memory_bytes
        return model.largest_batch(memory) if model and memory else None

    def _upper_limit(self, examples: int | None) -> tuple[int, str]:
        """The largest batch that may be tried, and what limits it."""
        options, spec = self._question.options, self._question.spec
        limits = [(options.max_batch, "max_batch")]
        examples = known_train_examples(spec.data, spec.model) or examples
        if examples is not None:
            limits.append((examples // spec.train.accumulate, "data"))
        if self._question.device == "cpu" and self.predicted is not None:
            limits.append((self.predicted, "memory"))
        limit, reason = min(limits)
        return max(limit // BATCH_MULTIPLE * BATCH_MULTIPLE, BATCH_MULTIPLE), reason

    def _next(self) -> int | None:
        """The next batch of the search; None when the largest one is known well enough."""
        if not self.fits and self.fails is None:
            first = self._first_predicted or self._given_batch()
            return min(first, self.limit) or BATCH_MULTIPLE
        if self.fails is None:
            return min(2 * self.fits, self.limit) if self.fits < self.limit else None
        gap = self.fails - self.fits
        allowed = max(BATCH_MULTIPLE, self._question.options.resolution * self.fits)
        if gap <= allowed:
            return None
        middle = (self.fits + gap // 2) // BATCH_MULTIPLE * BATCH_MULTIPLE
        return max(middle, self.fits + BATCH_MULTIPLE)

    def _given_batch(self) -> int:
        given = self._question.spec.data.batch_size // BATCH_MULTIPLE * BATCH_MULTIPLE
        return max(given, BATCH_MULTIPLE)

    def _throughput_batches(self) -> list[int]:
        """The largest batch and halves of it, whose throughput is compared."""
        sizes = (self.fits >> number for number in count())
        found: list[int] = []
        for size in sizes:
            rounded = size // BATCH_MULTIPLE * BATCH_MULTIPLE
            if rounded < BATCH_MULTIPLE or len(found) == THROUGHPUT_SIZES:
                return found
            found.append(rounded)
        return found


def _is_close(batch: int, known: Sequence[int]) -> bool:
    """Whether the throughput of one of the known batches tells that of this one."""
    return any(abs(one - batch) <= CLOSE_SHARE * batch for one in known)


def _measurement(batch: int, result: JobResult) -> BatchMeasurement:
    peak = result.number("peak_memory_bytes")
    return BatchMeasurement(
        batch_size=batch,
        fits=result.had_enough_memory,
        examples_per_s=throughput(result),
        peak_memory_bytes=int(peak) if peak is not None else None,
        job=result.job_id,
    )


def _critical_batch(fitting: Sequence[BatchMeasurement]) -> int | None:
    """The smallest batch that is almost as fast as the fastest one."""
    known = [(one.batch_size, one.examples_per_s) for one in fitting if one.examples_per_s]
    if not known:
        return None
    highest = max(speed for _, speed in known)
    return min(batch for batch, speed in known if speed >= SATURATED_SHARE * highest)


def _explanation(
    largest: int | None,
    critical: int | None,
    search: _Search,
    limited_by: str,
    failure: JobResult | None,
) -> str:
    if failure is not None:
        return f"Job {failure.job_id} is {failure.state} ({failure.reason}): {failure.message}"
    if largest is None:
        return f"Not even a batch of {search.fails} fits."
    limits = {
        "memory": f"{search.fails} does not" if search.fails else "a larger one probably does not",
        "max_batch": "no larger one was tried (max_batch)",
        "data": "the data has no more examples",
    }
    text = f"A batch of {plural(largest, 'example')} fits; {limits[limited_by]}."
    if critical is not None and critical < largest:
        text += f" Beyond {critical:,} the throughput hardly grows."
    return text


def _divergence(results: Sequence[JobResult]) -> str:
    """What else is wrong with a policy whose jobs had enough memory."""
    job = next((one for one in results if one.reason in DIVERGED), None)
    if job is None:
        return ""
    return (
        f" There is enough memory, but the training does not work out: job {job.job_id} is "
        f"{job.state} ({job.reason}). See ampctl lab precision."
    )
