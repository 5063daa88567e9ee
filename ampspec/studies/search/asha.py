"""Asynchronous successive halving: selects the runs to continue from the results at each rung.

Source: Li et al. 2018, "A System for Massively Parallel Hyperparameter Tuning", arXiv:1810.05934,
algorithm 2. A rung is a number of steps. Unlike in the paper, a search that ends without a run
at the last rung continues the best one: its answer is never a stopped run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True)
class RungEntry:
    """A run that has trained to a rung."""

    run: int
    loss: float
    """The metric, with its sign changed where higher is better; infinite: it failed."""
    can_continue: bool
    """False at its last rung, or if it was already promoted."""


Rungs = Mapping[int, Sequence[RungEntry]]
"""The runs that have trained to a rung, by its steps."""


def rung_steps(total_steps: int, min_steps: int, reduction_factor: int) -> tuple[int, ...]:
    """The steps of the rungs of a run; the last one is its end."""

    def below_end() -> Iterator[int]:
        steps = min_steps
        while steps < total_steps:
            yield steps
            steps *= reduction_factor

    return (*below_end(), total_steps)


def promotable(rungs: Rungs, reduction_factor: int) -> int | None:
    """The run to continue: among the best 1 / reduction_factor of its rung, highest rung first."""
    for steps in sorted(rungs, reverse=True):
        entries = _by_loss(rungs[steps])
        for entry in entries[: len(entries) // reduction_factor]:
            if entry.can_continue and isfinite(entry.loss):
                return entry.run
    return None


def best_stopped(rungs: Rungs) -> int | None:
    """The best run of the highest rung with a run to continue."""
    for steps in sorted(rungs, reverse=True):
        for entry in _by_loss(rungs[steps]):
            if entry.can_continue and isfinite(entry.loss):
                return entry.run
    return None


def _by_loss(entries: Sequence[RungEntry]) -> list[RungEntry]:
    """The best first; ties go to the older run."""
    return sorted(entries, key=lambda entry: (entry.loss, entry.run))
