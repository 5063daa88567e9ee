"""One run of a job: block after block, and all that is to be done between two of them."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ampcore import precision
from ampcore.checkpoint import Checkpoint, matched
from ampcore.data import Dataset
from ampcore.series import StepBlock
from ampcore.spec import JobSpec
from ampcore.spec.devices import DeviceFacts
from ampcore.spec.precision import NoScale, Precision
from ampcore.train import recovery
from ampcore.train.checkpoints import Checkpoints, manifest, restore
from ampcore.train.diagnosis import Diagnosis
from ampcore.train.evaluate import Evaluator
from ampcore.train.feed import Feed
from ampcore.train.guard import Exceeded, Guard
from ampcore.train.outbox import Outbox
from ampcore.train.plan import Plan
from ampcore.train.recovery import Recovery
from ampcore.train.report import scale_events, warning
from ampcore.train.session import Session
from ampcore.train.state import Arrays
from ampcore.train.totals import Totals

IN_FLOAT32: Final = "in_float32"
"""Among the counters of a checkpoint: the run has fallen back to float32."""


@dataclass(frozen=True)
class Material:
    """What a run is made of, whatever its precision."""

    spec: JobSpec
    dataset: Dataset
    plan: Plan
    feed: Feed
    device: DeviceFacts

    def session(self, *, float32: bool = False) -> Session:
        """The job on the device, in its own precision or in float32 without a loss scale."""
        plain = {"precision": Precision(), "loss_scale": NoScale()}
        spec = self.spec.model_copy(update=plain) if float32 else self.spec
        policies = precision.layer_policies(spec.precision, self.device)
        return Session(spec, self.dataset, self.plan, self.feed, policies)


class Run:
    """The state of a run: the session and everything that is counted beside it."""

    def __init__(
        self, material: Material, checkpoints: Checkpoints, outbox: Outbox, *, float32: bool
    ) -> None:
        self._material, self._checkpoints, self._outbox = material, checkpoints, outbox
        self._spec, self._plan = material.spec, material.plan
        self.totals = Totals()
        self.recovery = Recovery(self._spec, in_float32=float32)
        self._warned_of_damage = False
        self._gone_back_at: int | None = None
        self._engine_before = "graph"
        self._begin(material.session(float32=float32))
        self._keep_good_state()

    def _begin(self, session: Session) -> None:
        self.session = session
        self.diagnosis = Diagnosis(session)
        self._warm = False
        limit = self._spec.guard.max_consecutive_skips
        self.guard = Guard(limit, checked=session.checks_finite)
        dataset = self._material.dataset
        self._evaluator = (
            Evaluator(session.task, dataset, self._spec.data.batch_size)
            if len(dataset.y_val)
            else None
        )

    @property
    def is_done(self) -> bool:
        """Whether every step of the plan has been made."""
        return self.steps_left <= 0

    @property
    def steps_left(self) -> int:
        """The steps of the plan that have not been made."""
        return self._plan.total_steps - self.totals.steps

    def advance(self) -> None:
        """Train one block, tell of it, and do what is due after it."""
        self.diagnosis.before(self.totals.steps)
        halting = self.diagnosis.halts_on_skip
        block = self.session.run_block(self.totals.steps, halt_on_skip=halting)
        self.totals.add(block, warm=self._warm)
        self._warm = True
        self._outbox.block(block)
        # Now, as long as the state is the one in which the last step was skipped.
        verdicts = self.diagnosis.after(block, halting=halting)
        for event in scale_events(block, self.session.loss_scales, verdicts):
            self._outbox.event(event)
        self._warn_of_damage(block)
        if exceeded := self.guard.observe(block):
            self._recover(exceeded)
        self._close_epoch()
        self._evaluate()
        # Damaged weights must not take the place of the good ones that were saved before.
        if not self._is_damaged and self._checkpoints.is_due():
            self.save()

    @property
    def _is_damaged(self) -> bool:
        """Whether the last step was bad, and was applied all the same."""
        return bool(self.guard.row) and not self.session.checks_finite

    def save(self) -> None:
        """Keep the state as it stands: as a checkpoint, and to go back to if it is a good one."""
        arrays = self._keep_good_state()
        if self._checkpoints.saves:
            # A resumed run does not tell again of the steps before its checkpoint.
            self._outbox.flush()
            arrays = arrays or self.session.capture()
            self._outbox.event(self._checkpoints.save(self._checkpoint(arrays)))

    def tell_scale_table(self) -> None:
        """Tell what the loss scales would have lost, if gradients were sampled."""
        if table := self.diagnosis.scale_table(self.totals.steps - 1):
            self._outbox.event(table)

    def _keep_good_state(self) -> Arrays | None:
        # A state that was gone back to is no new one: else its rollbacks would never end.
        gone_back = self.totals.steps == self._gone_back_at
        if not self.recovery.needs_states or self.guard.row or gone_back:
            return None
        arrays = self.session.capture()
        self.recovery.keep(arrays, self.totals.steps)
        return arrays

    def restore(self, found: Checkpoint) -> None:
        """Go on from a checkpoint. Raises IncompatibleCheckpoint."""
        restore(self.session, found)
        self._engine_before = found.manifest.engine
        counters: dict[str, Any] = dict(found.manifest.counters)
        self.totals = Totals.from_json(counters["totals"])
        self.guard.row = counters["guard_row"]
        self._warned_of_damage = counters["warned_of_damage"]
        self.diagnosis.restore(counters["diagnosis"])
        if self.recovery.needs_states:
            # Amid bad steps, too: what was good before them is not there any more.
            self.recovery.keep(self.session.capture(), self.totals.steps)

    def _checkpoint(self, arrays: Arrays) -> Checkpoint:
        counters = {
            "totals": self.totals.to_json(),
            "guard_row": self.guard.row,
            "warned_of_damage": self._warned_of_damage,
            "diagnosis": self.diagnosis.to_json(),
            IN_FLOAT32: self.recovery.in_float32,
        }
        device, steps = self._material.device.kind, self.totals.steps
        # A run that was done when it was resumed uses none.
        engine = self.session.engine or self._engine_before
        made = manifest(self._spec, self.session, device, steps, counters, engine=engine)
        return Checkpoint(made, arrays)

    def _close_epoch(self) -> None:
        epoch, batch = self._plan.place(self.totals.steps)
        if batch == 0:
            self._outbox.event(self.totals.close_epoch(epoch - 1))
        elif self.is_done:
            # It stays open: a run that is given more steps goes on with it.
            self._outbox.event(self.totals.epoch.event(epoch, self.totals.steps - 1))

    def _evaluate(self) -> None:
        if self._evaluator is not None and self._plan.evaluates_after(self.totals.steps):
            evaluation = self._evaluator(self.session.averaged())
            self._outbox.event(self.totals.keep(evaluation))

    def _recover(self, exceeded: Exceeded) -> None:
        good = self.recovery.way_back(exceeded)
        if self._spec.guard.on_exceeded == "rollback":
            self.session.restore(good.arrays)
            self.session.lower_scales(recovery.HALF**good.rollbacks)
            self.guard.row = 0
            self._gone_back_at = self.totals.steps
            event = recovery.rollback_event(exceeded, good, self.session.loss_scale)
        else:
            event = recovery.fallback_event(exceeded, good, self.session.policies.name)
            self._go_float32(good.arrays)
        self._outbox.event(event)

    def _go_float32(self, arrays: Arrays) -> None:
        engine = self.session.engine or "graph"
        session = self._material.session(float32=True)
        variables, _ = session.divided(arrays)
        session.restore(matched(variables, session.wanted()), scales=False)
        session.use(engine, min(self.totals.steps, self._plan.total_steps - 1))
        self.recovery.fell_back()
        self.tell_scale_table()
        self._begin(session)

    def _warn_of_damage(self, block: StepBlock) -> None:
        """Warn once when a step with a loss that is not finite was applied all the same."""
        damaged = ~np.isfinite(block["loss"]) & ~block["skipped"]
        if damaged.any() and not self._warned_of_damage:
            self._warned_of_damage = True
            message = "The loss is not finite, and without a finite check the step was applied."
            step = block.first_step + int(damaged.argmax())
            self._outbox.event(warning("non_finite_loss", message, step))
