"""Finds the best evaluation of a run, and decides when evaluations no longer improve.

Both depend only on the evaluations, not on time, so that a resumed run decides as one that was not
interrupted.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ampcore.models.task import Task
from ampspec.documents.text import join_names, plural
from ampspec.errors import InvalidData, InvalidModel
from ampspec.objectives.metrics import better
from ampspec.rules.best_evaluation import PREFIX, metric_problems
from ampspec.telemetry import Event, EventType
from ampspec.training.training import Train

Mode = Literal["min", "max"]

_INDEX: Final = re.compile(r"_\d+$")
"""The end of the name of one value of a metric with several."""


@dataclass
class BestState:
    """What the next decision depends on; part of checkpoints.

    Attributes:
        metric: The metric that decides.
        mode: Whether lower or higher values are better.
        value: The best value so far; None before the first finite one.
        steps: The completed steps at that evaluation.
        evaluation: All its metrics.
        reference: The value that the next evaluation must improve by more than `min_delta`.
        waited: The evaluations in a row that did not.
        stopped_at: The completed steps after which the run ended early; None if it did not.
    """

    metric: str = ""
    mode: Mode = "min"
    value: float | None = None
    steps: int = 0
    evaluation: dict[str, float] = field(default_factory=dict)
    reference: float | None = None
    waited: int = 0
    stopped_at: int | None = None


class BestEvaluation:
    """Compares the evaluations of a run.

    Args:
        train: The section of the spec; its `best_by` is not None.
        mode: Whether lower or higher values of the metric are better.
    """

    def __init__(self, train: Train, mode: Mode) -> None:
        best = train.best_by
        if best is None:
            raise ValueError("The spec asks for no best evaluation.")
        self._stopping = train.early_stopping
        self.keeps_weights = train.keep != "last"
        """Whether the weights of the best evaluation are needed at the end."""
        self.state = BestState(best.metric, mode)

    @property
    def has_stopped(self) -> bool:
        """Whether the training has ended because evaluations no longer improved."""
        return self.state.stopped_at is not None

    def observe(
        self, evaluation: Mapping[str, float], *, steps: int, epochs: int, is_last: bool
    ) -> bool:
        """Whether this evaluation is the best so far.

        Args:
            evaluation: Its metrics by name.
            steps: The completed steps.
            epochs: The completed epochs.
            is_last: The run is complete anyway.

        Raises:
            InvalidModel: The metric is not among them.
        """
        state = self.state
        if (value := evaluation.get(state.metric)) is None:
            raise _unknown(state.metric, evaluation)
        is_best = self._is_better(value, state.value)
        if is_best:
            state.value, state.steps, state.evaluation = value, steps, dict(evaluation)
        if self._stopping is not None:
            self._count(value, epochs)
            if self._is_exhausted() and not is_last:
                state.stopped_at = steps
        return is_best

    def restore(
        self, saved: BestState | None, *, steps: int, epochs: int, has_weights: bool
    ) -> bool:
        """Continue after a checkpoint; whether its state is used.

        The comparison starts again if the metric has changed, or if weights are kept now that were
        not kept before.
        """
        state = self.state
        if saved is None or (saved.metric, saved.mode) != (state.metric, state.mode):
            return False
        if self.keeps_weights and saved.value is not None and not has_weights:
            return False
        self.state = saved
        if self._stopping is None or epochs <= self._stopping.start_epoch:
            saved.waited = 0
        if not self._is_exhausted() or saved.stopped_at != steps:
            saved.stopped_at = None
        return True

    def stopped_event(self, best_epoch: int, epoch: int) -> Event:
        """The event of an early end; epochs count from 0."""
        state = self.state
        best_text = (
            "no value was finite"
            if state.value is None
            else f"the best was {state.value:.6g} in epoch {best_epoch}"
        )
        evaluations = plural(state.waited, "evaluation")
        data = {
            **self.stopped_json(epoch),
            "best_epoch": best_epoch,
            "patience": state.waited,
            "message": f"Stopped early after epoch {epoch}: {state.metric} has not improved in "
            f"{evaluations}; {best_text}.",
        }
        return Event(EventType.STOPPED_EARLY, (state.stopped_at or 1) - 1, data)

    def stopped_json(self, epoch: int) -> dict[str, Any]:
        """The facts of an early end in the result of the run."""
        return {"epoch": epoch, "metric": self.state.metric, "best": self.state.value}

    def _is_better(self, value: float, than: float | None, by: float = 0.0) -> bool:
        if not math.isfinite(value):
            return False
        if than is None:
            return True
        return value < than - by if self.state.mode == "min" else value > than + by

    def _count(self, value: float, epochs: int) -> None:
        stopping, state = self._stopping, self.state
        if stopping is None:
            return
        if self._is_better(value, state.reference, stopping.min_delta):
            state.reference, state.waited = value, 0
        elif epochs > stopping.start_epoch:
            state.waited += 1

    def _is_exhausted(self) -> bool:
        return self._stopping is not None and self.state.waited >= self._stopping.patience


def best_evaluation(train: Train, task: Task, *, has_validation: bool) -> BestEvaluation | None:
    """What compares the evaluations of a task; None if the spec does not ask for it.

    Raises:
        InvalidData: There is no validation data.
        InvalidModel: The task does not report the metric, or its direction is unknown.
    """
    best = train.best_by
    if best is None:
        return None
    if not has_validation:
        raise InvalidData(
            "data",
            "validation",
            expected="validation data, which train.early_stopping, train.keep and train.best need",
            received="none",
        )
    names = [f"{PREFIX}{name}" for name in task.metrics]
    name = best.metric if best.metric in names else _INDEX.sub("", best.metric)
    mode: str | None = best.mode
    if mode == "auto":
        short = name.removeprefix(PREFIX)
        mode = better(short) or task.metric_direction(short)
    if name not in names:
        raise _unknown(best.metric, names)
    for problem in metric_problems(name, mode or "auto", names):
        raise InvalidModel("train.best.mode", expected=problem.expected, received="auto")
    return BestEvaluation(train, "max" if mode == "max" else "min")


def _unknown(metric: str, names: Collection[str]) -> InvalidModel:
    return InvalidModel(
        "train.best.metric",
        expected=f"a metric that this job reports: {join_names(names, 64)}",
        received=metric,
    )
