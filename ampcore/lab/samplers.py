"""Which values a search tries next, and how much each parameter mattered.

The samplers are optuna's. Its study lives in memory for one call and is made from the runs so far,
so that the same runs give the same values, on any server and after any restart. optuna is imported
in the functions: a server that runs no search does not need it.

Source of TPE: Bergstra et al. 2011; of the importance, PED-ANOVA: Watanabe et al. 2023,
arXiv:2304.10255.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, Final

from ampcore.api.study_requests import DEFAULT_RUNS, SearchOptions
from ampcore.lab.search_space import (
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
"""Draws until one is new; a space of few values repeats itself."""
FIRST_RANDOM: Final = 10
"""Runs that TPE draws at random before it uses results; at most a quarter of all runs."""
BEST_SHARE: Final = 0.25
"""The share of the runs that importance compares with all; a tenth, as in the paper, is too few
of twenty."""
MIN_RUNS: Final = 8
"""With fewer, importance would be chance."""


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
    """How many runs a search has."""
    if options.method != "grid":
        wanted = options.runs if options.runs is not None else DEFAULT_RUNS
        return min(wanted, combinations(options.space) or wanted)
    return prod(len(grid_values(one) or ()) for one in options.space.values())


def next_values(options: SearchOptions, runs: Sequence[Observation]) -> dict[str, Any] | None:
    """The values of the next run; None if every combination has been tried.

    The draws depend on the seed, the number of runs and their observations, and on nothing else.
    """
    if len(runs) >= run_count(options):
        return None
    if options.method == "grid":
        columns = [grid_values(one) or () for one in options.space.values()]
        combination = next(itertools.islice(itertools.product(*columns), len(runs), None))
        return dict(zip(options.space, combination, strict=True))
    tried = {_identity(run.values) for run in runs}
    for draw in range(MAX_DRAWS):
        values = _drawn(options, runs, draw)
        if _identity(values) not in tried:
            return values
    return _first_untried(options.space, tried)


def importances(space: Space, runs: Sequence[Observation]) -> dict[str, float] | None:
    """The share of each parameter in what distinguishes the best quarter of the runs.

    Runs are compared after the smallest number of steps, which all have trained. None if there are
    too few runs, or if they do not differ.
    """
    finite = [min(run.losses.items())[1] for run in runs if run.losses and not run.has_failed]
    known = [run for run in runs if run.losses]
    if len(known) < MIN_RUNS or len(set(finite)) < 2:
        return None
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    study = _memory_study()
    worst = max(finite)
    for run in known:
        loss = worst if run.has_failed else min(run.losses.items())[1]
        study.add_trial(_finished(space, run.values, loss))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=BEST_SHARE)
    found = get_param_importances(study, evaluator=evaluator)
    return {path: float(found.get(path, 0.0)) for path in space}


def _drawn(options: SearchOptions, runs: Sequence[Observation], draw: int) -> dict[str, Any]:
    import numpy as np
    from optuna.samplers import RandomSampler, TPESampler

    entropy = np.random.SeedSequence([options.seed, len(runs), draw])
    seed = int(entropy.generate_state(1)[0])
    is_random = options.method == "random" or draw > MAX_DRAWS // 2
    first_random = min(FIRST_RANDOM, max(run_count(options) // 4, 1))
    sampler = (
        RandomSampler(seed) if is_random else TPESampler(seed=seed, n_startup_trials=first_random)
    )
    study = _memory_study(sampler)
    if not is_random:
        for run in runs:
            study.add_trial(_observed(options.space, run))
    return decoded(options.space, study.ask(distributions(options.space)).params)


def _first_untried(space: Space, tried: set[str]) -> dict[str, Any] | None:
    """The first combination of choices and integers that was not drawn; None if all were."""
    columns = []
    for parameter in space.values():
        if parameter.choice is None and not parameter.kind.endswith("int_uniform"):
            return None  # of a range of numbers 50 draws are never all old ones
        low, high = (0, 0) if parameter.choice is not None else parameter.bounds
        columns.append(parameter.choice or range(int(low), int(high) + 1))
    for combination in itertools.product(*columns):
        values = dict(zip(space, combination, strict=True))
        if _identity(values) not in tried:
            return values
    return None


def _identity(values: Values) -> str:
    return json.dumps(values, sort_keys=True)


def _memory_study(sampler: Any = None) -> "Study":
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)  # each study would log a line
    return optuna.create_study(sampler=sampler, direction="minimize")


def _observed(space: Space, run: Observation) -> "FrozenTrial":
    """A run for TPE: pruned if it was stopped at a rung, or failed, which is the worst result.

    Not optuna's state FAIL: TPE knows nothing of such runs, and draws more and more of them.
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
