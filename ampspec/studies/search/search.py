"""Searches for the hyper-parameter values with the best metric.

A search asks its sampler for the values of the next run whenever fewer than `parallel` jobs are
open, or promotes a run to its next rung. It decides from the jobs planned so far and from their
results, so that a restart does not change it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ampspec.api.studies import RungValue, SearchAnswer, SearchedParameter, SearchRun
from ampspec.api.study_requests import SearchOptions
from ampspec.documents.assignments import with_values
from ampspec.documents.text import plural
from ampspec.jobs import Problem, State
from ampspec.precision.devices import DeviceInfo
from ampspec.studies.plan import JobResult, Limit, NoAnswer, PlannedJob, Results, StudyContext
from ampspec.studies.search import asha, search_checks
from ampspec.studies.search.samplers import Sampler, importances, run_count
from ampspec.studies.search.search_runs import (
    END,
    Metric,
    PlannedRun,
    metric_of,
    new_run,
    planned_jobs,
    promoted,
    read_runs,
    rungs_by_steps,
)

ENDS: Final = {State.CANCELLED: "cancelled", State.SUCCEEDED: "failed", State.FAILED: "failed"}


class SearchKind:
    """The kind `search`."""

    decided_by_results = True
    allows_invalid_jobs = True
    compares_examples = False
    needs_device = False

    def policies(self, options: SearchOptions, devices: Sequence[DeviceInfo]) -> tuple[str, ...]:
        """None: the policy is that of the spec, or one of the parameters."""
        return ()

    def limit(self, context: StudyContext[SearchOptions]) -> Limit | None:
        """Every run with every rung; the longest of the first runs stands for all."""
        count = run_count(context.options)
        rungs = [run.rungs for run in self._extended(context, read_runs(context, {}))]
        whole = max(steps[-1] for steps in rungs)
        jobs = count * max(len(steps) for steps in rungs)
        return Limit(jobs, None if whole == END else count * whole)

    def check(self, context: StudyContext[SearchOptions]) -> Sequence[Problem]:
        """Problems of the space, and of the settings that ASHA needs."""
        return search_checks.problems(context)

    def jobs(self, context: StudyContext[SearchOptions], results: Results) -> Sequence[PlannedJob]:
        """The jobs planned so far and, while there is room, the next ones."""
        return planned_jobs(context, self._extended(context, read_runs(context, results)))

    def _extended(
        self, context: StudyContext[SearchOptions], runs: Sequence[PlannedRun]
    ) -> list[PlannedRun]:
        """The runs, extended by further runs and rungs while there is room."""
        room = _room(context.options) - sum(run.is_open for run in runs)
        if room <= 0:
            return list(runs)
        try:
            metric = metric_of(context, runs)
        except NoAnswer:
            return list(runs)  # the answer will explain it; more jobs do not help
        extension = _Extension(context, runs, metric)
        while room > 0 and extension.extend():
            room -= 1
        return extension.runs

    def answer(self, context: StudyContext[SearchOptions], results: Results) -> SearchAnswer:
        """The best run, all runs and the importance of the parameters. Raises NoAnswer."""
        runs = read_runs(context, results)
        metric = metric_of(context, runs)
        if metric is None:
            raise NoAnswer(f"No run has trained to its end. {_failures(runs)}")
        return _Answer(context, runs, metric).answer()


def _room(options: SearchOptions) -> int:
    """Maximum number of open jobs: all, if no job depends on results."""
    uses_results = options.method == "tpe" or options.asha is not None
    return options.parallel if uses_results else run_count(options)


class _Extension:
    """Extends the runs of a search by further runs and rungs."""

    def __init__(
        self,
        context: StudyContext[SearchOptions],
        runs: Sequence[PlannedRun],
        metric: Metric | None,
    ) -> None:
        self.runs = list(runs)
        self._context, self._metric = context, metric
        self._sampler = Sampler(context.options, [run.observation(metric) for run in runs])

    def extend(self) -> bool:
        """Add the next run, or a rung to a run; False if nothing can be done now."""
        number = self._promotable()
        if number is None and (values := self._sampler.next_values()) is not None:
            self.runs.append(new_run(self._context, len(self.runs) + 1, values))
            return True
        if number is None and not any(run.is_open or run.is_complete for run in self.runs):
            number = asha.best_stopped(self._rungs())
        if number is None:
            return False
        self.runs[number - 1] = promoted(self._context, self.runs[number - 1])
        return True

    def _promotable(self) -> int | None:
        options = self._context.options.asha
        return asha.promotable(self._rungs(), options.reduction_factor) if options else None

    def _rungs(self) -> asha.Rungs:
        return rungs_by_steps(self.runs, self._metric) if self._metric is not None else {}


def _failures(runs: Sequence[PlannedRun]) -> str:
    ended = [run.results[-1] for run in runs if run.results]
    reasons = dict.fromkeys(_failure(result) for result in ended)
    return " ".join(reasons)


def _failure(result: JobResult) -> str:
    if not result.job_id:
        return f"A job was refused: {result.message}"
    reason = f" ({result.reason})" if result.reason else ""
    return f"Job {result.job_id} is {result.state}{reason}."


class _Answer:
    """Turns the runs of a search that has ended into its answer."""

    def __init__(
        self, context: StudyContext[SearchOptions], runs: Sequence[PlannedRun], metric: Metric
    ) -> None:
        self._context, self._runs, self._metric = context, runs, metric
        self._options = context.options

    def answer(self) -> SearchAnswer:
        """The answer. Raises NoAnswer if no run has a finite metric."""
        runs = [self._run(run) for run in self._runs]
        best = self._best(runs)
        saved = self._steps_saved(runs) if self._options.asha is not None else None
        trained = [run.steps for run in runs]
        return SearchAnswer(
            summary=self._summary(runs, best, saved),
            method=self._options.method,
            metric=self._metric.name,
            higher_is_better=self._metric.higher_is_better,
            best=best.number,
            parameters=self._parameters(),
            runs=runs,
            steps=sum(filter(None, trained)) if None not in trained else None,
            steps_saved=saved,
            write=self._sections(best.values),
        )

    def _run(self, run: PlannedRun) -> SearchRun:
        finite = {
            steps: result.metrics[self._metric.name]
            for steps, result in zip(run.rungs, run.results, strict=False)
            if result.succeeded and self._metric.name in result.metrics
        }
        last = run.results[-1]
        is_bad = not last.succeeded or self._metric.name not in last.metrics
        state = ENDS[last.state] if is_bad else "finished" if run.is_complete else "stopped"
        why = f"no finite {self._metric.name}" if last.succeeded else last.message or last.reason
        return SearchRun(
            number=run.number,
            values=dict(run.values),
            state=state,
            value=None if is_bad else last.metrics[self._metric.name],
            steps=_trained(run),
            evaluations=[
                RungValue(steps=steps or None, value=value) for steps, value in finite.items()
            ],
            explanation=why if is_bad else None,
            jobs=[result.job_id for result in run.results if result.job_id],
        )

    def _best(self, runs: Sequence[SearchRun]) -> SearchRun:
        """The best of the runs that trained to their end."""
        sign = -1.0 if self._metric.higher_is_better else 1.0
        finished = [run for run in runs if run.state == "finished" and run.value is not None]
        if not finished:
            raise NoAnswer(
                f"No run trained to its end with a finite {self._metric.name}. "
                f"{_failures(self._runs)}"
            )
        return min(finished, key=lambda run: sign * (run.value or 0.0))

    def _steps_saved(self, runs: Sequence[SearchRun]) -> int:
        return sum(
            run.rungs[-1] - (shown.steps or 0)
            for run, shown in zip(self._runs, runs, strict=True)
            if shown.state == "stopped"
        )

    def _parameters(self) -> list[SearchedParameter]:
        observed = [run.observation(self._metric) for run in self._runs]
        shares = importances(self._options.space, observed) or {}
        return [
            SearchedParameter(path=path, kind=parameter.kind, importance=shares.get(path))
            for path, parameter in self._options.space.items()
        ]

    def _sections(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values as sections of a spec; a list stays whole, with its other items."""
        changed = with_values(dict(self._context.document), values)
        written: dict[str, Any] = {}
        for path in values:
            written = _copied(written, changed, path.split("."))
        return written

    def _summary(self, runs: Sequence[SearchRun], best: SearchRun, saved: int | None) -> str:
        values = ", ".join(f"{path} = {value}" for path, value in best.values.items())
        text = (
            f"The best of {plural(len(runs), 'run')} is run {best.number}: {self._metric.name} "
            f"{best.value:.4g} with {values}."
        )
        if saved:
            trained = sum(run.steps or 0 for run in runs)
            share = 100 * saved / (saved + trained)
            text += f" Stopping the others early saved {share:.0f} % of the steps."
        lost = sum(run.state in ("failed", "cancelled") for run in runs)
        return text + (f" {plural(lost, 'run')} failed." if lost else "")


def _trained(run: PlannedRun) -> int | None:
    """The steps that a run trained; None if it is not known."""
    last = run.results[-1]
    if last.succeeded and run.rungs[len(run.results) - 1] != END:
        return run.rungs[len(run.results) - 1]
    steps = last.number("steps")
    return int(steps) if steps is not None else None


def _copied(target: Any, source: Any, keys: Sequence[str]) -> Any:
    """`target` with the value of `source` under `keys`."""
    if not keys or not isinstance(source, dict):
        return source
    key, *inner_keys = keys
    return {**(target or {}), key: _copied((target or {}).get(key), source[key], inner_keys)}
