"""Explains why a step was skipped: the loss scale, an operation, the data or the weights.

The step is replayed at other loss scales and in float32 (see `replay`). Nothing is computed and
nothing is traced before the first skip.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ampcore.diagnostics.sampling_budget import Clock, SamplingBudget
from ampcore.diagnostics.steps.attribution import Attribution
from ampcore.diagnostics.steps.overflow_cause import CauseDetails, OverflowCause, explain_cause
from ampcore.diagnostics.steps.replay import Replay
from ampcore.diagnostics.steps.responsible_examples import indices_of
from ampcore.diagnostics.steps.skipped_step import MAX_EXAMPLES, BatchPosition, SkippedStep
from ampcore.diagnostics.steps.step_diagnosis import (
    DiagnosedStep,
    StepContext,
    StepDiagnoser,
    StepValues,
)
from ampcore.models.task import float32_view
from ampcore.precision import NoLossScale

logger = logging.getLogger(__name__)

ALWAYS_EXPLAINED: Final = 8
"""The number of first skips of a run that are always explained."""
MAX_TIME_SHARE: Final = 0.01
"""The share of the run's time that further explanations may take."""


class OverflowDiagnostics:
    """Explains a skipped step: what overflowed, where it began, and why.

    Args:
        replay: Replays the task that is trained.
        clock: Returns seconds since any fixed time.
    """

    def __init__(
        self,
        replay: Replay,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._replay = replay
        self._float32_replay: Replay | None = None
        self._diagnoser = StepDiagnoser(replay, self._in_float32)
        self.budget = SamplingBudget(clock)
        self._skips, self._next_at = 0, 1
        """The skips so far, and the number of the next one that is explained."""

    @property
    def is_due(self) -> bool:
        """Whether the run should stop after the next skip, to explain it.

        The first ones are, then each at which their number has doubled, if there is time.
        """
        number = self._skips + 1
        return number <= ALWAYS_EXPLAINED or (
            number >= self._next_at and self.budget.allows(MAX_TIME_SHARE)
        )

    def observe(self, skips: int) -> None:
        """Count skips, including explained ones; call it after their explanation."""
        self._skips += skips

    @contextmanager
    def explanation(self) -> Iterator[None]:
        """A context in which the next skip is explained; its time is spent."""
        with self.budget.spending():
            yield
        self._next_at = 2 * (self._skips + 1)

    def diagnose(
        self,
        step: SkippedStep,
        context: StepContext | None = None,
        values: StepValues | None = None,
    ) -> dict[str, Any]:
        """The event data of the step that was just skipped.

        Weights and non-trainable variables must be as they were when it ran. It costs as much as
        ten to thirty steps.

        Args:
            step: The step.
            context: What it is compared with; None: nothing is known.
            values: What the run recorded of it.
        """
        with self.explanation():
            try:
                diagnosed = self._diagnoser.diagnose(
                    step, context or StepContext(), values or StepValues()
                )
                finding_facts = _finding_facts(diagnosed, step.position)
                facts = finding_facts | diagnosed.replayed.facts | finding_facts
            except Exception as error:
                # A failed diagnosis, most likely out of memory, must not end the run.
                logger.warning("A skipped step was not explained.", exc_info=True)
                facts = _unknown_cause(error)
        return facts | {"explained_in_s": self.budget.last_s}

    def to_json(self) -> dict[str, Any]:
        """The counters, for a checkpoint."""
        return {"skips": self._skips, "next_at": self._next_at, **self.budget.to_json()}

    def restore(self, document: Mapping[str, Any]) -> None:
        """Restore the counters that `to_json` wrote."""
        self._skips = document.get("skips", 0)
        self._next_at = document.get("next_at", 1)
        self.budget.restore({"spent_s": 0.0, "run_s": 0.0, **document})

    def _in_float32(self) -> Replay:
        """The replay of the same task in float32."""
        if self._float32_replay is None:
            task, replay = float32_view(self._replay.task), self._replay
            scales = [NoLossScale()] * len(task.networks)
            self._float32_replay = Replay(task, scales, replay.accumulate, replay.shard)
        return self._float32_replay


def _finding_facts(diagnosed: DiagnosedStep, position: BatchPosition) -> dict[str, Any]:
    finding, batch = diagnosed.finding, diagnosed.replayed.facts["batch"]
    facts: dict[str, Any] = {
        "attribution": finding.attribution.value,
        "sentence": finding.text,
        "advice": finding.advice,
    }
    if positions := diagnosed.responsible.positions:
        examples = indices_of(positions, position.indices)
        responsible = {"bad_examples": list(examples[:MAX_EXAMPLES]), "bad_total": len(examples)}
        facts["batch"] = {**batch, **responsible}
    return facts


def _unknown_cause(error: Exception) -> dict[str, Any]:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    details = CauseDetails(OverflowCause.UNKNOWN, reason=reason[:300])
    return {
        "diagnosis": details.cause.value,
        "attribution": Attribution.UNKNOWN.value,
        "sentence": explain_cause(details).text,
    }
