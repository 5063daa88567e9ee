"""Runs a step twice from the same state and compares every bit of the results.

On a processor equal inputs give equal bits, so that a difference shows faulty hardware. Some
kernels of GPUs add numbers in any order: there, only large differences count.

Source: Hochschild et al. 2021, Cores that don't count, doi:10.1145/3458336.3465297, and Dixit et
al. 2021, Silent Data Corruptions at Scale, arXiv:2102.11245: processors that compute wrongly
without an error are found by repeating work.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ampcore.checkpoint.state import Arrays
from ampcore.training.step.step_runner import StepRunner
from ampspec.telemetry import Event, EventType, StepBlock

CLOSE: Final = 1e-2
"""The largest relative difference of values that only a different order of sums explains."""
MAX_NAMED: Final = 8
TIMES: Final = ("step_time_s",)


@dataclass(frozen=True)
class ValueDifference:
    """A value or array that differs between two runs of one step."""

    name: str
    elements: int
    """How many of its elements differ in a bit."""
    relative: float
    """The largest difference, relative to the largest magnitude; infinite if not finite."""


@dataclass(frozen=True)
class RepeatedStep:
    """A step that was run twice, and the differences between its results."""

    block: StepBlock
    """The row of the first time."""
    differences: tuple[ValueDifference, ...]

    @property
    def is_close(self) -> bool:
        """Whether no difference is larger than another order of sums explains."""
        return all(difference.relative <= CLOSE for difference in self.differences)

    def is_reproducible(self, *, is_exact: bool) -> bool:
        """Whether the results agree: in every bit, or closely on a device that is not exact."""
        return not self.differences or (not is_exact and self.is_close)

    def event(self, *, is_exact: bool) -> Event | None:
        """The event of a step that is not reproducible; None if it is."""
        if self.is_reproducible(is_exact=is_exact):
            return None
        message = (
            "The step was run twice from the same state, and the results differ: "
            f"{self.describe()}. The memory or the processor of this machine may be faulty: take "
            "it out of use and test it."
        )
        data = {**self.to_json(), "message": message}
        return Event(EventType.NOT_REPRODUCIBLE, self.block.first_step, data)

    def describe(self) -> str:
        """The differences in a clause."""
        shown = [
            f"{difference.name} ({difference.elements} different, "
            f"up to {difference.relative:.3g} of its largest value)"
            for difference in self.differences[:MAX_NAMED]
        ]
        more = len(self.differences) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "runs": 2,
            "equal_bits": not self.differences,
            "differences": [vars(difference) for difference in self.differences[:MAX_NAMED]],
            "differences_left_out": len(self.differences[MAX_NAMED:]),
        }


class StepRepeater:
    """Runs a step twice every few steps, and compares the results.

    Args:
        every: After how many steps; None: never.
        is_exact: Whether equal inputs give equal bits on the device.
    """

    def __init__(self, every: int | None, *, is_exact: bool) -> None:
        self._every, self._is_exact = every, is_exact

    def max_steps(self, done: int) -> int | None:
        """The steps until a step is repeated; None: none is."""
        return None if self._every is None else self._every - done % self._every

    def before_block(self, runner: StepRunner, step: int) -> Iterator[Event]:
        """Run the next step twice and compare every bit, if it is due; the state stays."""
        if self._every is None or not step or step % self._every:
            return
        if event := repeat_step(runner, step).event(is_exact=self._is_exact):
            yield event


def repeat_step(runner: StepRunner, step: int) -> RepeatedStep:
    """Run a step twice; afterwards the state is the one before it again.

    Args:
        runner: A runner whose next step is `step`, with an engine.
        step: The number of the step.
    """
    state_before = runner.state.capture()
    first = runner.run_block(step, max_steps=1)
    after_first = runner.state.capture()
    runner.state.restore(state_before)
    second = runner.run_block(step, max_steps=1)
    after_second = runner.state.capture()
    runner.state.restore(state_before)
    return RepeatedStep(first, compare(first, after_first, second, after_second))


def compare(
    first: StepBlock, after_first: Arrays, second: StepBlock, after_second: Arrays
) -> tuple[ValueDifference, ...]:
    """The differences between two results of one step, in its row and in the state after it."""
    names = [name for name in first.names if name not in TIMES]
    pairs = [(name, first[name], second[name]) for name in names]
    pairs += [(name, array, after_second[name]) for name, array in after_first.items()]
    differences = (_difference(*pair) for pair in pairs)
    return tuple(difference for difference in differences if difference is not None)


def _difference(name: str, first: Any, second: Any) -> ValueDifference | None:
    first, second = np.atleast_1d(first), np.atleast_1d(second)
    if first.tobytes() == second.tobytes():
        return None
    width = first.dtype.itemsize
    bits = np.frombuffer(first.tobytes(), np.uint8), np.frombuffer(second.tobytes(), np.uint8)
    elements = int((bits[0] != bits[1]).reshape(-1, width).any(axis=1).sum())
    return ValueDifference(
        name, elements, _relative(first.astype(np.float64), second.astype(np.float64))
    )


def _relative(first: Any, second: Any) -> float:
    finite = np.isfinite(first) & np.isfinite(second)
    if (np.isfinite(first) != np.isfinite(second)).any():
        return float("inf")
    if not finite.any():
        return 0.0
    largest = float(np.abs(first[finite]).max())
    distance = float(np.abs(first[finite] - second[finite]).max())
    return distance / largest if largest else (float("inf") if distance else 0.0)
