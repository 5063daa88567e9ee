"""Capacity studies: the largest batch, and the batch beyond which training gets no faster.

`batch_search` decides which sizes are tried. A job that runs out of memory is a measurement here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ampspec.api.studies import BatchMeasurement, CapacityAnswer, PolicyCapacity
from ampspec.api.study_requests import CapacityOptions
from ampspec.documents.text import plural
from ampspec.jobs import Problem
from ampspec.precision.devices import DeviceInfo
from ampspec.studies.capacity.batch_search import BatchSearch, LimitedBy, size_of_key
from ampspec.studies.plan import (
    DIVERGED,
    JobResult,
    Limit,
    NoAnswer,
    PlannedJob,
    Results,
    StudyContext,
)
from ampspec.studies.precision.policies import FLOAT32, policies_to_study, policy_sections
from ampspec.studies.precision.precision import throughput

SATURATED_SHARE: Final = 0.9
"""The share of the highest throughput at the critical batch; larger ones gain at most a ninth."""
GIB: Final = 2**30
MIXED: Final = "ran in one job and failed in another"


class CapacityKind:
    """The kind `capacity`."""

    decided_by_results = True
    # Without the device's memory the search could fill the memory of the whole machine.
    allows_invalid_jobs = False
    compares_examples = False
    needs_device = True

    def policies(self, options: CapacityOptions, devices: Sequence[DeviceInfo]) -> tuple[str, ...]:
        """The requested policies; by default float32 and the mixed policies of the devices."""
        policies = policies_to_study(options.policies, devices)
        includes_float32 = options.policies is None or FLOAT32 in options.policies or not policies
        return (FLOAT32, *policies) if includes_float32 else policies

    def limit(self, context: StudyContext[CapacityOptions]) -> Limit | None:
        """None: the number of jobs depends on the results."""
        return None

    def check(self, context: StudyContext[CapacityOptions]) -> Sequence[Problem]:
        """No problems: the request model has checked the options."""
        return ()

    def jobs(
        self, context: StudyContext[CapacityOptions], results: Results
    ) -> Sequence[PlannedJob]:
        """The batch sizes tried so far, and for each policy the next ones."""
        return [
            PlannedJob(key, _changes(context, policy, size_of_key(key)))
            for policy in context.policies
            for key in BatchSearch(context, policy, results).keys
        ]

    def answer(self, context: StudyContext[CapacityOptions], results: Results) -> CapacityAnswer:
        """The largest and the critical batch of every policy.

        Raises NoAnswer if no job of any policy ran, or ran out of memory.
        """
        searches = {policy: BatchSearch(context, policy, results) for policy in context.policies}
        policies = [
            _policy_answer(policy, search, results, context) for policy, search in searches.items()
        ]
        if not any(search.ran or _ran_out(search) for search in searches.values()):
            raise NoAnswer(" ".join(policy.explanation for policy in policies))
        sizes = "; ".join(f"{policy}: {_size_text(search)}" for policy, search in searches.items())
        return CapacityAnswer(
            summary=f"Largest batch by policy: {sizes}.",
            device=context.device,
            device_memory_bytes=context.device_memory_bytes,
            memory_limit_bytes=context.memory_limit_bytes,
            policies=policies,
        )


def _changes(context: StudyContext[CapacityOptions], policy: str, batch: int) -> dict[str, Any]:
    return {
        **policy_sections(context.document, policy, studied=context.policies),
        "data.batch_size": batch,
        "train.steps": context.options.steps,
        "train.checkpoint_every_s": None,
        # A second attempt would run out of memory, too.
        "runtime.max_attempts": 1,
    }


def _ran_out(search: BatchSearch) -> bool:
    return any(result.ran_out_of_memory for result in search.did_not_fit.values())


def _policy_answer(
    policy: str, search: BatchSearch, results: Results, context: StudyContext[CapacityOptions]
) -> PolicyCapacity:
    ended = {key: results[key] for key in search.keys}
    # The last job of a size decides, and a failed job overrides one that ran.
    by_size = {size_of_key(key): result for key, result in ended.items()} | search.did_not_fit
    measured = [_measurement(size, result) for size, result in sorted(by_size.items())]
    critical = _critical_batch([batch for batch in measured if batch.fits])
    return PolicyCapacity(
        policy=policy,
        largest_batch=search.largest or None,
        limited_by=search.limited_by,
        smallest_failed=search.smallest_failed,
        predicted=search.estimate,
        critical_batch=critical,
        batches=measured,
        jobs=[result.job_id for result in ended.values()],
        explanation=_explanation(search, critical, context) + _divergence(by_size),
    )


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
    speeds = [(batch.batch_size, batch.examples_per_s) for batch in fitting if batch.examples_per_s]
    if not speeds:
        return None
    highest = max(speed for _, speed in speeds)
    return min(size for size, speed in speeds if speed >= SATURATED_SHARE * highest)


def _size_text(search: BatchSearch) -> str:
    """The largest batch in the summary, with how sure it is."""
    size = f"{search.largest:,}"
    match search.limited_by:
        case LimitedBy.MEMORY if not search.largest:
            return f"not even {plural(search.smallest_failed or 1, 'example')}"
        case LimitedBy.MEMORY:
            return size
        case LimitedBy.DATA:
            return f"{size}, all the examples of the data"
        case LimitedBy.MAX_BATCH:
            return f"at least {size} (max_batch)"
        case LimitedBy.ESTIMATE:
            return f"≈ {size}, since a larger one was not tried"
        case LimitedBy.TIME | LimitedBy.FAILURE:
            return f"at least {size}" if search.largest else "not known"


def _explanation(
    search: BatchSearch, critical: int | None, context: StudyContext[CapacityOptions]
) -> str:
    largest, failed = search.largest, search.smallest_failed
    if search.failure is not None:
        return _failure_text(search, search.failure)
    if not largest:
        return f"Not even a batch of {plural(failed or 1, 'example')} fits.{_limit_text(context)}"
    reasons = {
        LimitedBy.MEMORY: _failed_text(search, failed) if failed is not None else "",
        LimitedBy.MAX_BATCH: "no larger one was tried (max_batch)",
        LimitedBy.DATA: "the data has no more examples",
        LimitedBy.ESTIMATE: "a larger one was not tried, since it is estimated to need more than "
        "the machine's memory. To search further, limit trainers to less "
        "(AMPCORE_TRAINER_MEMORY_BYTES of the worker)",
    }
    text = f"A batch of {plural(largest, 'example')} fits; {reasons[search.limited_by]}."
    if search.limited_by is LimitedBy.MEMORY and failed is not None:
        text += _crash_text(failed, search.did_not_fit[failed], search.estimate)
    if critical is not None and critical < largest:
        text += f" Beyond {critical:,} the throughput hardly grows."
    return text


def _failed_text(search: BatchSearch, failed: int) -> str:
    return f"{failed:,} {MIXED if failed in search.ran else 'did not'}"


def _crash_text(size: int, result: JobResult, estimate: int | None) -> str:
    """Why a crashed job counts as out of memory, although it did not report it."""
    if not result.crashed:
        return ""
    why = "the size is beyond the estimate"
    if estimate is None or size <= estimate:
        why = "smaller sizes ran, and not every job of this one"
    return f" Job {result.job_id} crashed; this counts as out of memory, since {why}."


def _limit_text(context: StudyContext[CapacityOptions]) -> str:
    limit = context.memory_limit_bytes
    if limit is None:
        return ""
    return f" A trainer may allocate {limit / GIB:.1f} GiB on the workers."


def _failure_text(search: BatchSearch, failure: JobResult) -> str:
    ended = f"Job {failure.job_id} is {failure.state} ({failure.reason}): {failure.message}"
    if not search.largest:
        return ended
    return (
        f"A batch of {plural(search.largest, 'example')} fits; whether a larger one does is not "
        f"known. {ended}"
    )


def _divergence(results: Mapping[int, JobResult]) -> str:
    """The divergence of a policy whose jobs had enough memory, as a sentence."""
    job = next((result for result in results.values() if result.reason in DIVERGED), None)
    if job is None:
        return ""
    return (
        f" There is enough memory, but the training diverges: job {job.job_id} is {job.state} "
        f"({job.reason}). See ampctl study precision."
    )
