"""Samples the values of a search, and measures the importance of its parameters.

The samplers are optuna's. Its study lives in memory for one call and is built from the runs so far,
so that the same runs give the same values, on any server and after any restart. optuna is imported
in the functions: a server that runs no search does not need it.

Source of TPE: Bergstra et al. 2011; of the importance, PED-ANOVA: Watanabe et al. 2023,
arXiv:2304.10255.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, Final

from ampspec.api.study_requests import DEFAULT_RUNS, SearchOptions
from ampspec.studies.search.search_space import (
    Space,
    Values,
    combinations,
    decoded,
    distributions,
    encoded,
    grid_values,
)

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

MAX_DRAWS: Final = 50
"""Maximum number of draws until one is new; a small space repeats values."""
TPE_DRAWS: Final = 5
"""The number of these draws made by TPE, whose cost grows with the runs; the others are random."""
FIRST_RANDOM: Final = 10
"""Random runs before TPE uses results; at most a quarter of all runs."""
BEST_SHARE: Final = 0.25
"""The share of best runs that importance compares with all runs; the paper's tenth is too small for
twenty runs."""
MIN_RUNS: Final = 8
"""Minimum number of runs; with fewer, importance would be chance."""


@dataclass(frozen=True)
class Observation:
    """A run so far, as a sampler sees it."""

    values: Values
    losses: Mapping[int, float]
    """By rung: lower is better. Empty while there is none; infinite: the run failed."""
    is_complete: bool
    """Whether it has trained to its end."""

    @property
    def has_failed(self) -> bool:
        """Whether it ended without a finite metric."""
        return any(not isfinite(loss) for loss in self.losses.values())


def run_count(options: SearchOptions) -> int:
    """The number of runs of a search."""
    if options.method != "grid":
        limit = options.runs if options.runs is not None else DEFAULT_RUNS
        return min(limit, combinations(options.space) or limit)
    return prod(len(grid_values(parameter) or ()) for parameter in options.space.values())


class Sampler:
    """Draws the values of the next runs, given the runs so far.

    The draws depend only on the seed, the number of runs and their observations: a sampler created
    anew after each run draws the same values.
    """

    def __init__(self, options: SearchOptions, runs: Sequence[Observation]) -> None:
        self._options = options
        self._runs = runs
        self._count, self._run_count = len(runs), run_count(options)
        self._tried = {_identity(run.values) for run in runs}
        self._untried = _all_combinations(options.space)
        self._study: Study | None = None

    def next_values(self) -> dict[str, Any] | None:
        """The values of the next run; None if every combination has been tried."""
        if self._count >= self._run_count:
            return None
        values = self._of_grid() if self._options.method == "grid" else self._new_values()
        if values is not None:
            self._count += 1
            self._tried.add(_identity(values))
        return values

    def _of_grid(self) -> dict[str, Any]:
        """The combination whose number is that of the run; the last parameter changes first."""
        number, values = self._count, {}
        for path, parameter in reversed(self._options.space.items()):
            column = grid_values(parameter) or ()
            number, place = divmod(number, len(column))
            values[path] = column[place]
        return {path: values[path] for path in self._options.space}

    def _new_values(self) -> dict[str, Any] | None:
        for draw in range(MAX_DRAWS):
            values = self._drawn(draw)
            if _identity(values) not in self._tried:
                return values
        return next(
            (values for values in self._untried if _identity(values) not in self._tried), None
        )

    def _drawn(self, draw: int) -> dict[str, Any]:
        import numpy as np
        from optuna.samplers import RandomSampler, TPESampler

        entropy = np.random.SeedSequence([self._options.seed, self._count, draw])
        seed = int(entropy.generate_state(1)[0])
        if self._options.method == "random" or draw >= TPE_DRAWS:
            study = _memory_study(RandomSampler(seed))
        else:
            study = self._study_of_runs()
            first_random = min(FIRST_RANDOM, max(self._run_count // 4, 1))
            study.sampler = TPESampler(seed=seed, n_startup_trials=first_random)
        space = self._options.space
        return decoded(space, study.ask(distributions(space)).params)

    def _study_of_runs(self) -> "Study":
        """The runs for TPE, which ignores those that it has drawn since: they are not observed."""
        if self._study is None:
            self._study = _memory_study()
            for run in self._runs:
                self._study.add_trial(_observed(self._options.space, run))
        return self._study


def importances(space: Space, runs: Sequence[Observation]) -> dict[str, float] | None:
    """The share of each parameter in separating the best quarter of the runs.

    Runs are compared after the smallest number of steps, which all have trained. None if there are
    too few runs, or if they do not differ.
    """
    finite = [min(run.losses.items())[1] for run in runs if run.losses and not run.has_failed]
    measured = [run for run in runs if run.losses]
    if len(measured) < MIN_RUNS or len(set(finite)) < 2:
        return None
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    study = _memory_study()
    worst = max(finite)
    for run in measured:
        loss = worst if run.has_failed else min(run.losses.items())[1]
        study.add_trial(_finished(space, run.values, loss))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=BEST_SHARE)
    shares = get_param_importances(study, evaluator=evaluator)
    return {path: float(shares.get(path, 0.0)) for path in space}


def _all_combinations(space: Space) -> Iterator[dict[str, Any]]:
    """Every combination of choices and integers; none if there are ranges of numbers."""
    columns: list[Sequence[Any]] = []
    for parameter in space.values():
        if parameter.choice is None and not parameter.kind.endswith("int_uniform"):
            return  # 50 draws from a continuous range are never all repeated
        low, high = (0, 0) if parameter.choice is not None else parameter.bounds
        columns.append(parameter.choice or range(int(low), int(high) + 1))
    for combination in itertools.product(*columns):
        yield dict(zip(space, combination, strict=True))


def _identity(values: Values) -> str:
    return json.dumps(values, sort_keys=True)


def _memory_study(sampler: Any = None) -> "Study":
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # each study would log a line
    return optuna.create_study(sampler=sampler, direction="minimize")


def _observed(space: Space, run: Observation) -> "FrozenTrial":
    """A run for TPE: pruned if it was stopped at a rung, or failed, which is the worst result.

    Not optuna's state FAIL: TPE ignores such runs, and would keep drawing similar ones.
    """
    from optuna.trial import TrialState, create_trial

    if run.is_complete and not run.has_failed:
        return _finished(space, run.values, run.losses[max(run.losses)])
    finite = {steps: loss for steps, loss in run.losses.items() if isfinite(loss)}
    return create_trial(
        state=TrialState.PRUNED if run.losses else TrialState.RUNNING,
        params=encoded(space, run.values),
        distributions=distributions(space),
        intermediate_values={} if run.has_failed else finite,
    )


def _finished(space: Space, values: Values, loss: float) -> "FrozenTrial":
    from optuna.trial import create_trial

    return create_trial(
        params=encoded(space, values), distributions=distributions(space), value=loss
    )
