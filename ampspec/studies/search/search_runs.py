"""The runs of a search: read from its planned jobs and their results."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from ampspec.api.study_requests import SearchOptions
from ampspec.documents.assignments import with_values
from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.objectives.optimizer import Cosine
from ampspec.preflight.data import total_steps
from ampspec.studies.metric import searched_metric
from ampspec.studies.plan import JobResult, PlannedJob, Results, StudyContext
from ampspec.studies.search.asha import RungEntry, Rungs, rung_steps
from ampspec.studies.search.samplers import Observation
from ampspec.studies.search.search_space import Values

END: Final = 0
"""Stands for the steps of a whole run where they are known only once the data is read."""
KEY: Final = re.compile(r"run-(\d+)(?:/step-\d+)?")


@dataclass(frozen=True)
class Metric:
    """The metric that a search improves."""

    name: str
    higher_is_better: bool

    def loss(self, result: JobResult) -> float:
        """Lower is better; infinite if the job failed, or if its metric is not finite."""
        value = result.metrics.get(self.name) if result.succeeded else None
        if value is None:
            return inf
        return -value if self.higher_is_better else value


@dataclass(frozen=True)
class PlannedRun:
    """One combination of values and its jobs so far, one job for each rung."""

    number: int
    values: Values
    rungs: tuple[int, ...]
    """The steps after which it is compared; the last one is its end."""
    keys: tuple[str, ...]
    """The keys of its jobs."""
    results: tuple[JobResult, ...]
    """The results of its ended jobs."""

    @property
    def is_open(self) -> bool:
        """Whether one of its jobs has not ended."""
        return len(self.results) < len(self.keys)

    @property
    def is_complete(self) -> bool:
        """Whether it has trained to its end."""
        return len(self.results) == len(self.rungs) and self.results[-1].succeeded

    def losses(self, metric: Metric | None) -> dict[int, float]:
        """The loss by the steps of a rung; infinite without a metric, when no job has succeeded."""
        ended = zip(self.rungs, self.results, strict=False)
        return {rung: metric.loss(result) if metric is not None else inf for rung, result in ended}

    def observation(self, metric: Metric | None) -> Observation:
        """The run as a sampler sees it."""
        return Observation(self.values, self.losses(metric), self.is_complete)


def read_runs(context: StudyContext[SearchOptions], results: Results) -> list[PlannedRun]:
    """The runs that were planned in earlier rounds."""
    keys: dict[int, list[str]] = {}
    for key in context.planned:
        if (match := KEY.fullmatch(key)) is not None:
            keys.setdefault(int(match[1]), []).append(key)
    runs = []
    for number, run_keys in sorted(keys.items()):
        first = context.planned[run_keys[0]]
        values = {path: first[path] for path in context.options.space}
        ended = tuple(results[key] for key in run_keys if key in results)
        runs.append(PlannedRun(number, values, rungs_of(context, values), tuple(run_keys), ended))
    return runs


def new_run(context: StudyContext[SearchOptions], number: int, values: Values) -> PlannedRun:
    """A run with its first job."""
    rungs = rungs_of(context, values)
    return PlannedRun(number, values, rungs, (_key(context, number, rungs[0]),), ())


def promoted(context: StudyContext[SearchOptions], run: PlannedRun) -> PlannedRun:
    """The run with another job, which trains it to its next rung."""
    key = _key(context, run.number, run.rungs[len(run.keys)])
    return PlannedRun(run.number, run.values, run.rungs, (*run.keys, key), run.results)


def planned_jobs(
    context: StudyContext[SearchOptions], runs: Sequence[PlannedRun]
) -> list[PlannedJob]:
    """The jobs of the runs: those that were planned already come first, unchanged."""
    jobs = {
        key: PlannedJob(
            key,
            context.planned.get(key) or _changes(context, run, rung),
            extends=run.keys[rung - 1] if rung else None,
        )
        for run in runs
        for rung, key in enumerate(run.keys)
    }
    old = [key for key in context.planned if key in jobs]
    return [jobs[key] for key in dict.fromkeys((*old, *jobs))]


def metric_of(context: StudyContext[SearchOptions], runs: Sequence[PlannedRun]) -> Metric | None:
    """The metric; None while no job has succeeded. Raises NoAnswer if it cannot be used."""
    succeeded = [result for run in runs for result in run.results if result.succeeded]
    if not succeeded:
        return None
    options = context.options
    name, higher = searched_metric(context.spec, options.metric, options.direction, succeeded)
    return Metric(name, higher)


def rungs_by_steps(runs: Sequence[PlannedRun], metric: Metric) -> Rungs:
    """The runs that have reached each rung."""
    rungs: dict[int, list[RungEntry]] = {}
    for run in runs:
        for place, (steps, loss) in enumerate(run.losses(metric).items(), start=1):
            can_continue = len(run.keys) == place < len(run.rungs)
            rungs.setdefault(steps, []).append(RungEntry(run.number, loss, can_continue))
    return rungs


def rungs_of(context: StudyContext[SearchOptions], values: Values) -> tuple[int, ...]:
    """The steps of the rungs of a run: without ASHA only its end."""
    try:
        total = _total_steps(context, _spec(context, values))
    except SpecValidationError:
        return (END,)  # the check of the job says what is wrong
    asha = context.options.asha
    if total is None or asha is None:
        return (total or END,)
    return rung_steps(total, asha.min_steps, asha.reduction_factor)


def _spec(context: StudyContext[SearchOptions], values: Values) -> JobSpec:
    return JobSpec.parse(with_values(dict(context.document), values))


def _total_steps(context: StudyContext[SearchOptions], spec: JobSpec) -> int | None:
    return context.options.steps or total_steps(spec)


def _key(context: StudyContext[SearchOptions], number: int, steps: int) -> str:
    return f"run-{number}/step-{steps}" if context.options.asha else f"run-{number}"


def _changes(context: StudyContext[SearchOptions], run: PlannedRun, rung: int) -> Mapping[str, Any]:
    changes = dict(run.values)
    if context.options.asha is None:
        if context.options.steps is not None:
            changes["train.steps"] = context.options.steps
        return changes
    if run.rungs[rung] == END:
        return changes
    changes["train.steps"] = run.rungs[rung]
    spec = _spec(context, run.values)
    optimizers = {f"optimizers.{name}": optimizer for name, optimizer in spec.optimizers.items()}
    for path, optimizer in {"optimizer": spec.optimizer, **optimizers}.items():
        schedule = optimizer.schedule
        if isinstance(schedule, Cosine) and schedule.end_step is None:
            # Otherwise the cosine would end at each rung, and go up after it.
            changes[f"{path}.schedule.end_step"] = run.rungs[-1]
    return changes
