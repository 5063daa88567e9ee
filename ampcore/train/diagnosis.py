"""What a run finds out about its own precision: why steps are skipped, which loss scales suit."""

from collections.abc import Mapping
from typing import Any

from ampcore.data import Batch
from ampcore.diagnose.overflow import OverflowVerdicts
from ampcore.diagnose.replay import Replay
from ampcore.diagnose.scale_table import ScaleTable
from ampcore.diagnose.skipped_step import BatchPlace
from ampcore.series import Event, EventType, StepBlock
from ampcore.series.scale_health import Health, ScaleBounds, ScaleHealth
from ampcore.train.report import Verdicts, scale_columns
from ampcore.train.session import Session


class Diagnosis:
    """Watches one session; steps that are not skipped cost nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session
        replay = Replay(session.task, session.scales, session.step.accumulate)
        self._verdicts = OverflowVerdicts(replay, session.float32_task)
        half = "float16" in session.policies.compute_dtypes
        self._table = ScaleTable(replay) if half else None
        several = len(session.networks) > 1
        self._health = {
            network.name: ScaleHealth(ScaleBounds.of(scale), network.name if several else None)
            for network, scale in zip(session.networks, session.scales, strict=True)
        }

    @property
    def halts_on_skip(self) -> bool:
        """Whether the next skip is to be explained, which its state is needed for."""
        return self._session.checks_finite and self._verdicts.wanted

    def before(self, step: int) -> None:
        """Sample the gradients of the step that comes next, now and then."""
        if self._table is not None and self._table.wanted(step):
            scales = list(self._session.loss_scales.values())
            self._table.sample(step, scales, *self._session.inputs(step))

    def after(self, block: StepBlock, *, halting: bool) -> Verdicts:
        """Take a block in; explains its last step when the block halted there."""
        found: dict[int, dict[str, Any]] = {}
        last = block.end_step - 1
        if halting and block["skipped"][-1]:
            scales = [float(column[-1]) for column in scale_columns(block, self._health).values()]
            found[last] = self._explained(last, scales, *self._session.inputs(last))
        self._verdicts.observe(int(block["skipped"].sum()))
        for health in self._health.values():
            health.observe(block)
        return found

    @property
    def scale_health(self) -> str:
        """A word for the loss scale; of several, that of the first one that is not well."""
        words = [health.word for health in self._health.values()]
        ill = (word for word in words if word not in (Health.STEADY, Health.FIXED))
        return next(ill, words[0])

    def scale_table(self, step: int) -> Event | None:
        """The table of what the loss scales would have lost, if gradients were sampled."""
        facts = self._table.facts() if self._table is not None else None
        return Event(EventType.SCALE_TABLE, step, facts) if facts else None

    def to_json(self) -> dict[str, Any]:
        """What is counted, for a checkpoint."""
        return {
            "verdicts": self._verdicts.to_json(),
            "table": self._table.to_json() if self._table is not None else None,
            "health": {name: health.to_json() for name, health in self._health.items()},
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Go on counting from what `to_json` wrote, as far as this session counts it.

        What the document of another version does not say is counted from the beginning.
        """
        self._verdicts.restore(document.get("verdicts") or {})
        if self._table is not None:
            self._table.restore(document.get("table") or {})
        found = document.get("health") or {}
        for name, health in self._health.items():
            health.restore(found.get(name) or {})

    def _explained(self, step: int, scales: list[float], batch: Batch, seed: Any) -> dict[str, Any]:
        place = BatchPlace(*self._session.place(step), self._session.examples_of(step))
        return self._verdicts.explain(scales, batch, seed, place)
