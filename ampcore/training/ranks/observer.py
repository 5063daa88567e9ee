"""Compares the ranks of a run between blocks: their times, and after some steps their state."""

from collections.abc import Iterator

from ampcore.training.ranks.agreement import check_equal_state
from ampcore.training.ranks.times import RankTimes
from ampcore.training.step.step_runner import StepRunner
from ampspec.telemetry import Event, StepBlock


class RankObserver:
    """Does nothing for a single rank.

    Args:
        ranks: The number of ranks.
        check_every_steps: After how many steps the states of all ranks are compared.
    """

    def __init__(self, ranks: int, check_every_steps: int) -> None:
        self._has_others, self._every = ranks > 1, check_every_steps
        self.times = RankTimes(ranks)

    def max_steps(self, done: int) -> int | None:
        """The steps until the next comparison; None: there is none."""
        return self._every - done % self._every if self._has_others else None

    def after_block(
        self, runner: StepRunner, block: StepBlock, done: int, *, is_warm: bool
    ) -> Iterator[Event]:
        """Compare after `done` steps; the first block, which is not warm, has no times.

        Raises:
            RanksDiffer: The weights, the optimizer or the loss scales differ.
        """
        if not self._has_others:
            return
        times = [block.stats.duration_s, runner.communication_s]
        reports = runner.communicator.all_gather_object(times)
        if is_warm:
            self.times.observe(len(block), reports)
            if (changed := self.times.changed_event(done - 1)) is not None:
                yield changed
        if not is_warm or done % self._every == 0:
            check_equal_state(runner, done)

    def at_end(self, last_step: int) -> Iterator[Event]:
        """The times of all ranks."""
        if self._has_others and (event := self.times.event(last_step)) is not None:
            yield event
