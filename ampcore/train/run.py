"""One run of a job: block after block, and all that is to be done between two of them."""

import math
from dataclasses import dataclass
from typing import Any

from ampcore import precision
from ampcore.checkpoint import Checkpoint, matched, not_finite
from ampcore.data import Dataset
from ampcore.errors import NonFiniteResult
from ampcore.series import StepBlock
from ampcore.spec import JobSpec
from ampcore.spec.devices import DeviceFacts
from ampcore.spec.precision import NoScale, Precision
from ampcore.train import recovery
from ampcore.train.checkpoints import Checkpoints, good_arrays, manifest, restore
from ampcore.train.counters import Counters, GoodStateCounters
from ampcore.train.diagnosis import Diagnosis
from ampcore.train.evaluate import Evaluator
from ampcore.train.feed import Feed
from ampcore.train.guard import (
    Damaged,
    Guard,
    Trouble,
    damaging_steps,
    listed,
    not_finite_advice,
)
from ampcore.train.loop import ON_SKIP
from ampcore.train.outbox import Outbox
from ampcore.train.plan import Plan
from ampcore.train.recovery import GoodState, Recovery
from ampcore.train.report import scale_events, warning
from ampcore.train.session import Session
from ampcore.train.state import Arrays
from ampcore.train.totals import Totals


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
        self._told_what_is_saved = False
        """A warning has said that the present state is too damaged to be saved."""
        self._engine_before = "graph"
        self._begin(material.session(float32=float32))

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

    def start(self) -> None:
        """Begin at the first step."""
        if self._keeps_states:
            self._keep(self.session.capture())

    def advance(self) -> None:
        """Train one block, tell of it, and do what is due after it."""
        self.diagnosis.before(self.totals.steps)
        explains = self.diagnosis.halts_on_skip
        halt = ON_SKIP if explains else self.guard.halt
        block = self.session.run_block(self.totals.steps, most=self._steps_to_keeping(), halt=halt)
        self.totals.add(block, warm=self._warm)
        self._warm = True
        self._outbox.block(block)
        # Now, as long as the state is the one in which the last step was skipped.
        verdicts = self.diagnosis.after(block, halting=explains)
        for event in scale_events(block, self.session.loss_scales, verdicts):
            self._outbox.event(event)
        self._warn_of_damage(block)
        good = self._guarded(block)
        self._close_epoch()
        self._evaluate()
        if good is not None:
            self._keep(good)
        if self._checkpoints.is_due():
            self.save()

    def check_result(self) -> None:
        """Raise NonFiniteResult when the weights of a run that is done, or its loss, are damaged.

        Weights are all that goes into the saved models: statistics and moving averages as well.
        """
        loss, advice = self.totals.final_loss, not_finite_advice(self._spec)
        if names := self.session.not_finite():
            found = f"values in {listed(names)} are not finite"
        elif not math.isfinite(loss) and self.totals.skipped == self.totals.steps:
            found = "every step was skipped, and nothing was learned"
            advice = (
                "train for more steps, lower loss_scale.initial, or check the data for outliers"
            )
        elif not math.isfinite(loss):
            found = f"the last loss is {loss}"
        elif self.guard.damage is not None:
            found = self.guard.damage
        else:
            return
        raise NonFiniteResult(
            f"After all {self.totals.steps} steps no model is saved: {found}; {advice}."
        )

    def save(self) -> None:
        """Save the state as it stands; where it is damaged, the last good one takes its place."""
        if not self._checkpoints.saves:
            return
        arrays = self.session.capture()
        if damage := self._damage(arrays):
            self._save_good_state(damage)
            return
        good = self.recovery.good if self.recovery.can_go_back else None
        if good is not None and good.steps == self.totals.steps:
            good = None  # the same one
        self._told_what_is_saved = False
        counters = self._counters(good).to_json()
        self._save(self.totals.steps, arrays, counters, good.arrays if good else None)

    def _save_good_state(self, damage: str) -> None:
        good, saved = self.recovery.good, self._checkpoints.newest_steps
        if good is not None and good.counters is not None and (saved is None or good.steps > saved):
            self._save(good.steps, good.arrays, good.counters)
        if not self._told_what_is_saved:
            self._told_what_is_saved = True
            left = self._checkpoints.newest_steps
            again = "begins again" if left is None else f"goes on after {left} steps"
            message = (
                f"The state after {self.totals.steps} steps is not saved: {damage}. A run that is "
                f"resumed {again}."
            )
            self._outbox.event(warning("damaged_state", message, self.totals.steps - 1))

    def _save(
        self, steps: int, arrays: Arrays, counters: dict[str, Any], good: Arrays | None = None
    ) -> None:
        # A resumed run does not tell again of the steps before its checkpoint.
        self._outbox.flush()
        device = self._material.device.kind
        # A run that was done when it was resumed uses none.
        engine = self.session.engine or self._engine_before
        made = manifest(self._spec, self.session, device, steps, counters, engine=engine)
        self._outbox.event(self._checkpoints.save(Checkpoint(made, arrays, good)))
        if not self._keeps_states:
            self.recovery.release()

    def tell_scale_table(self) -> None:
        """Tell what the loss scales would have lost, if gradients were sampled."""
        if table := self.diagnosis.scale_table(self.totals.steps - 1):
            self._outbox.event(table)

    @property
    def _keeps_states(self) -> bool:
        """Whether good states are wanted: to go back to, or while there is no checkpoint yet."""
        no_checkpoint = self._checkpoints.saves and self._checkpoints.newest_steps is None
        return self.recovery.can_go_back or no_checkpoint

    def _steps_to_keeping(self) -> int | None:
        """The steps to the end of the block after which a state is kept; None: to no end."""
        done = self.totals.steps
        return self.recovery.next_step(done) - done if self._keeps_states else None

    def _keep(self, arrays: Arrays) -> None:
        self.recovery.keep(GoodState(arrays, self.totals.steps, self._counters().to_json()))

    def restore(self, found: Checkpoint) -> None:
        """Go on from a checkpoint. Raises IncompatibleCheckpoint."""
        restore(self.session, found)
        self._engine_before = found.manifest.engine
        self._checkpoints.newest_steps = found.manifest.step
        counters = Counters.of(found.manifest)
        self.totals = counters.totals
        # A run that failed at the limit, and is tried again, may have as many bad steps again.
        limit = self._spec.guard.max_consecutive_skips
        self.guard.row = counters.guard_row if counters.guard_row < limit else 0
        self._warned_of_damage = counters.warned_of_damage
        self.diagnosis.restore(counters.diagnosis)
        if self.recovery.can_go_back:
            self.recovery.keep(self._restored_good_state(found, counters.good_state))

    def _restored_good_state(
        self, found: Checkpoint, counters: GoodStateCounters | None
    ) -> GoodState:
        arrays = good_arrays(self.session, found)
        if arrays is None or counters is None:
            # Amid bad steps, too: what was good before them is not there any more.
            return GoodState(self.session.capture(), self.totals.steps)
        return GoodState(arrays, counters.steps, rollbacks=counters.rollbacks)

    def _counters(self, good: GoodState | None = None) -> Counters:
        kept = GoodStateCounters(steps=good.steps, rollbacks=good.rollbacks) if good else None
        return Counters(
            totals=self.totals,
            guard_row=self.guard.row,
            warned_of_damage=self._warned_of_damage,
            in_float32=self.recovery.in_float32,
            diagnosis=self.diagnosis.to_json(),
            good_state=kept,
        )

    def _guarded(self, block: StepBlock) -> Arrays | None:
        """Go back where the run does not learn; returns the state where it is to be kept."""
        trouble: Trouble | None = self.guard.observe(block)
        done = self.totals.steps
        if trouble is None and self._keeps_states and self.recovery.is_due(done):
            # Amid bad steps the guard's limit decides.
            if self.guard.row:
                return None
            arrays = self.session.capture()
            damage = self._damage(arrays)
            if damage is None:
                return arrays
            if self.recovery.can_go_back:
                trouble = Damaged(done - 1, damage)
        return self._recover(trouble) if trouble else None

    def _damage(self, arrays: Arrays) -> str | None:
        """What is wrong with the present state, as a sentence that goes on; None if nothing is."""
        if names := not_finite(arrays):
            return f"values in {listed(names)} are not finite"
        return self.guard.damage

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

    def _recover(self, trouble: Trouble) -> Arrays | None:
        """Go back to the good state; returns the state that takes its place, if one does."""
        good = self.recovery.way_back(trouble)
        if self._spec.guard.on_exceeded == "rollback":
            self.session.restore(good.arrays)
            self.session.lower_scales(recovery.HALF**good.rollbacks)
            self.guard.begin_anew()
            self._outbox.event(recovery.rollback_event(trouble, good, self.session.loss_scale))
            return None
        event = recovery.fallback_event(trouble, good, self.session.policies.name)
        self._go_float32(good.arrays)
        self._outbox.event(event)
        return self.session.capture() if self._keeps_states else None

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
        """Warn once when a step was applied although its loss or gradient norm is not finite."""
        damaging = damaging_steps(block)
        if not damaging.any() or self._warned_of_damage:
            return
        self._warned_of_damage = True
        first = int(damaging.argmax())
        if math.isfinite(block["loss"][first]):
            code, what = "non_finite_gradients", "gradient norm"
        else:
            code, what = "non_finite_loss", "loss"
        message = f"The {what} is not finite, and the step was applied all the same."
        self._outbox.event(warning(code, message, block.first_step + first))
