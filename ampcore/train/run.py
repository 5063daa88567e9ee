"""One run of a job: trains block by block; evaluates, saves and recovers between blocks."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ampcore import precision
from ampcore.checkpoint import Checkpoint, nonfinite_names
from ampcore.checkpoint.saver import CheckpointSaver
from ampcore.checkpoint.state import Arrays
from ampcore.data import Dataset, Examples
from ampcore.data.batches import BatchSource
from ampcore.errors import NonFiniteResult
from ampcore.profile.phases import Phase
from ampcore.profile.recorder import ProfileRecorder
from ampcore.profile.scopes import phase_span
from ampcore.spec.devices import DeviceInfo
from ampcore.spec.run import RunSpec
from ampcore.spec.text import join_names
from ampcore.telemetry import Event, StepBlock
from ampcore.telemetry.scale_events import scale_events
from ampcore.train import recovery
from ampcore.train.best_evaluation import BestEvaluation, BestState, best_evaluation
from ampcore.train.callback_buffer import CallbackBuffer
from ampcore.train.counters import GoodStateCounters, RunCounters
from ampcore.train.evaluate import Evaluation, Evaluator
from ampcore.train.feed import Feed
from ampcore.train.guard import (
    DamagedState,
    Guard,
    GuardFailure,
    nonfinite_advice,
    nonfinite_applied_steps,
)
from ampcore.train.job import TrainingJob
from ampcore.train.loop import HALT_ON_SKIP
from ampcore.train.plan import Plan
from ampcore.train.recovery import GoodState, Recovery
from ampcore.train.repeat import repeat_step
from ampcore.train.resume import good_arrays, manifest, restore
from ampcore.train.run_diagnostics import RunDiagnostics
from ampcore.train.session import Session
from ampcore.train.totals import Totals

UNLIMITED: Final = 2**31 - 1
"""More bad steps in a row than any run has."""


@dataclass(frozen=True)
class RunContext:
    """The parts of a run that do not depend on its precision."""

    job: TrainingJob
    dataset: Dataset
    plan: Plan
    feed: Feed
    device: DeviceInfo
    is_replay: bool = False
    """Whether steps are repeated to look at one of them: nothing is evaluated or explained."""

    def build_session(self, *, float32: bool = False) -> Session:
        """Build the job's session, in its own precision or in float32 without a loss scale."""
        job = self.job.in_float32() if float32 else self.job
        policies = precision.layer_policies(job.spec.precision, self.device)
        return Session(job, self.dataset, self.plan, self.feed, policies)


class Run:
    """A run in progress: its session and its counters."""

    def __init__(
        self,
        context: RunContext,
        saver: CheckpointSaver,
        callback_buffer: CallbackBuffer,
        *,
        float32: bool,
        recorder: ProfileRecorder | None = None,
    ) -> None:
        self._context, self._saver, self._callback_buffer = context, saver, callback_buffer
        self.recorder = recorder or ProfileRecorder(context.device, None)
        self._spec, self._plan = context.job.spec, context.plan
        self.totals = Totals()
        self.recovery = Recovery(self._spec, in_float32=float32)
        self._warned_of_damage = False
        self._warned_unsaved = False
        """Whether a warning was emitted that the current state is too damaged to be saved."""
        self._engine_before = "graph"
        self.best_arrays: Arrays | None = None
        """The weights of the best evaluation, if the spec keeps them."""
        self._use_session(context.build_session(float32=float32))
        self.best = (
            None
            if context.is_replay
            else best_evaluation(
                self._spec.train, self.session.task, has_validation=self._evaluator is not None
            )
        )

    def _use_session(self, session: Session) -> None:
        self.session = session
        self.diagnostics = RunDiagnostics(
            session,
            self._spec.telemetry.ranges,
            self._plan.total_steps,
            is_replay=self._context.is_replay,
        )
        self._compiled = False
        limit = self._spec.guard.max_consecutive_skips
        if self._context.is_replay and self._spec.guard.on_exceeded == "fail":
            # The run itself may have been retried after it had failed.
            limit = UNLIMITED
        self.guard = Guard(limit, checked=session.checks_finite)
        validation = self._context.dataset.validation
        self._evaluator = (
            Evaluator(session.task, validation, _validation_batch(validation, self._spec))
            if validation is not None and not self._context.is_replay
            else None
        )

    @property
    def device(self) -> DeviceInfo:
        """The device that it trains on."""
        return self._context.device

    @property
    def dataset(self) -> Dataset:
        """The examples."""
        return self._context.dataset

    @property
    def is_done(self) -> bool:
        """Whether all steps of the plan are completed, or the run has stopped early."""
        return self.steps_left <= 0 or self.has_stopped_early

    @property
    def has_stopped_early(self) -> bool:
        """Whether the run has ended because its evaluations no longer improved."""
        return self.best is not None and self.best.has_stopped

    @property
    def steps_left(self) -> int:
        """The number of remaining steps of the plan."""
        return self._plan.total_steps - self.totals.steps

    def start(self) -> Sequence[Event]:
        """Begin at the first step, with the job's initial weights; returns what they are."""
        events = self._context.job.set_initial_weights(self.session.task)
        if self._needs_snapshots:
            self._keep_snapshot(self.session.capture())
        return events

    def advance(self, until: int | None = None) -> None:
        """Train one block: report it, explain a skip, recover, evaluate, save.

        With `until`, the block ends at the latest when that many steps are done.
        """
        self._emit(self.recorder.before_block(self.totals.steps))
        self._emit(self.diagnostics.before_block(self.totals.steps))
        self._check_hardware()
        stop_at_skip = self.diagnostics.explains_next_skip
        halt = HALT_ON_SKIP if stop_at_skip else self.guard.halt
        block = self.session.run_block(self.totals.steps, max_steps=self._limit(until), halt=halt)
        self.recorder.after_block(len(block), block.stats.duration_s)
        self.totals.add(block, is_warm=self._compiled)
        self._compiled = True
        self._callback_buffer.block(block)
        # Now, while the state is still that of the skipped last step.
        overflow_causes = self.diagnostics.after_block(block, stopped_at_skip=stop_at_skip)
        for event in scale_events(block, self.session.scale_by_network, overflow_causes):
            self._callback_buffer.event(event)
        for event in self.diagnostics.spikes(block):
            self._callback_buffer.event(event)
        self._warn_about_damage(block)
        good = self._apply_guard(block)
        self._close_epoch()
        self._evaluate()
        if good is not None:
            self._keep_snapshot(good)
        if self._saver.is_due():
            self.save()
        self._emit(self.recorder.finish_if_done(self.session))

    def finish_profiles(self) -> None:
        """Stop a profile in progress, and emit the reports that are still missing."""
        self._emit(self.recorder.finish_if_done(self.session, is_last=True))

    def _emit(self, events: Iterable[Event]) -> None:
        for event in events:
            self._callback_buffer.event(event)

    def check_result(self) -> None:
        """Check the weights, statistics, averages and loss of a completed run.

        Raises:
            NonFiniteResult: One of them is damaged, or every step was skipped.
        """
        loss, advice = self.totals.final_loss, nonfinite_advice(self._spec)
        if names := self.session.nonfinite_names():
            found = f"{join_names(names)} hold non-finite values"
        elif not math.isfinite(loss) and self.totals.skipped == self.totals.steps:
            found = "every step was skipped, and nothing was learned"
            advice = (
                "the overflow events say why: a loss scale that is still too high (train for more "
                "steps, or lower loss_scale.initial), an operation, or the data"
            )
        elif not math.isfinite(loss):
            found = f"the last loss is {loss}"
        elif self.guard.damage is not None:
            found = self.guard.damage
        elif self.best_arrays is not None and (names := nonfinite_names(self.best_arrays)):
            found = f"{join_names(names)} of the best evaluation hold non-finite values"
        else:
            return
        raise NonFiniteResult(
            f"No model was saved after {self.totals.steps} steps: {found}; {advice}."
        )

    def save(self) -> None:
        """Save the current state; if it is damaged, the last good one instead."""
        if not self._saver.is_enabled:
            return
        with phase_span(Phase.CHECKPOINT):
            arrays = self.session.capture()
        if damage := self._damage(arrays):
            self._save_good_state(damage)
            return
        good = self.recovery.good if self.recovery.can_recover else None
        if good is not None and good.steps == self.totals.steps:
            good = None  # the same state
        self._warned_unsaved = False
        counters = self._counters(good).to_json()
        good_arrays = good.arrays if good else None
        self._save(self.totals.steps, arrays, counters, good_arrays, self.best_arrays)

    def _save_good_state(self, damage: str) -> None:
        good, saved = self.recovery.good, self._saver.saved_steps
        if good is not None and good.counters is not None and (saved is None or good.steps > saved):
            self._save(good.steps, good.arrays, good.counters, best=good.best)
        if not self._warned_unsaved:
            self._warned_unsaved = True
            left = self._saver.saved_steps
            resumption = (
                "starts again at step 0" if left is None else f"continues after {left} steps"
            )
            message = (
                f"The state after {self.totals.steps} steps was not saved: {damage}. A resumed run "
                f"{resumption}."
            )
            self._callback_buffer.event(
                Event.warning("damaged_state", message, self.totals.steps - 1)
            )

    def _save(
        self,
        steps: int,
        arrays: Arrays,
        counters: dict[str, Any],
        good: Arrays | None = None,
        best: Arrays | None = None,
    ) -> None:
        # A resumed run does not report the steps before its checkpoint again.
        self._callback_buffer.flush()
        device = self._context.device.kind
        # A run that was already complete when it was resumed has no engine.
        engine = self.session.engine or self._engine_before
        made = manifest(self._spec, self.session, device, steps, counters, engine=engine)
        with phase_span(Phase.CHECKPOINT):
            saved = self._saver.save(Checkpoint(made, arrays, good, best))
        self._callback_buffer.event(saved)
        if not self._needs_snapshots:
            self.recovery.discard()

    def emit_scale_table(self) -> None:
        """Emit the loss-scale table (underflow and overflow at each scale), if sampled."""
        if table := self.diagnostics.scale_table(self.totals.steps - 1):
            self._callback_buffer.event(table)

    @property
    def _needs_snapshots(self) -> bool:
        """Whether good states are kept: for rollbacks, or while there is no checkpoint yet."""
        no_checkpoint = self._saver.is_enabled and self._saver.saved_steps is None
        return self.recovery.can_recover or no_checkpoint

    def _steps_to_snapshot(self) -> int | None:
        """The steps until the next state is kept; None: no state is kept."""
        done = self.totals.steps
        return self.recovery.next_snapshot_step(done) - done if self._needs_snapshots else None

    @property
    def _repeat_step_every(self) -> int | None:
        """How often a step is run twice more; None: never, as in a replay."""
        is_replay = self._context.is_replay
        return None if is_replay else self._spec.diagnostics.repeat_step_every

    def _check_hardware(self) -> None:
        """Run the next step twice and compare every bit, if it is due; the state stays."""
        every, step = self._repeat_step_every, self.totals.steps
        if every is None or not step or step % every:
            return
        is_exact = self._context.device.kind == "cpu"
        if event := repeat_step(self.session, step).event(is_exact=is_exact):
            self._callback_buffer.event(event)

    def _limit(self, until: int | None) -> int | None:
        """The most steps of the next block, if there is a limit."""
        done = self.totals.steps
        limits = [
            self._steps_to_snapshot(),
            self.diagnostics.steps_until_sample(done),
            self.recorder.max_steps(done),
            None if until is None else until - done,
        ]
        if (every := self._repeat_step_every) is not None:
            limits.append(every - done % every)
        return min((limit for limit in limits if limit is not None), default=None)

    def _keep_snapshot(self, arrays: Arrays) -> None:
        counters = self._counters().to_json()
        self.recovery.keep(GoodState(arrays, self.totals.steps, counters, best=self.best_arrays))

    def restore(self, found: Checkpoint) -> None:
        """Resume from a checkpoint. Raises IncompatibleCheckpoint."""
        restore(self.session, found)
        self._engine_before = found.manifest.engine
        self._saver.saved_steps = found.manifest.step
        counters = RunCounters.from_manifest(found.manifest)
        self.totals = counters.totals
        # A run that failed at the limit and is retried may have as many bad steps again.
        limit = self._spec.guard.max_consecutive_skips
        self.guard.consecutive_bad_steps = counters.guard_row if counters.guard_row < limit else 0
        self._warned_of_damage = counters.warned_of_damage
        self.diagnostics.restore(counters.diagnosis)
        self._restore_best(counters.best, found.best_arrays)
        if self.recovery.can_recover:
            self.recovery.keep(self._restored_good_state(found, counters.good_state))

    def _restore_best(self, saved: BestState | None, arrays: Arrays | None) -> None:
        if self.best is None:
            return
        epochs, _ = self._plan.position(self.totals.steps)
        is_used = self.best.restore(
            saved, steps=self.totals.steps, epochs=epochs, has_weights=arrays is not None
        )
        if is_used and self.best.keeps_weights:
            self.best_arrays = arrays

    def _restored_good_state(
        self, found: Checkpoint, counters: GoodStateCounters | None
    ) -> GoodState:
        arrays = good_arrays(self.session, found)
        if arrays is None or counters is None:
            # Also during bad steps: the good state before them no longer exists.
            return GoodState(self.session.capture(), self.totals.steps)
        return GoodState(arrays, counters.steps, rollbacks=counters.rollbacks)

    def _counters(self, good: GoodState | None = None) -> RunCounters:
        kept = GoodStateCounters(steps=good.steps, rollbacks=good.rollbacks) if good else None
        return RunCounters(
            totals=self.totals,
            guard_row=self.guard.consecutive_bad_steps,
            warned_of_damage=self._warned_of_damage,
            in_float32=self.recovery.in_float32,
            diagnosis=self.diagnostics.to_json(),
            best=self.best.state if self.best is not None else None,
            good_state=kept,
        )

    def _apply_guard(self, block: StepBlock) -> Arrays | None:
        """Recover a run that no longer learns; returns the current state if it is to be kept."""
        failure: GuardFailure | None = self.guard.observe(block)
        done = self.totals.steps
        if failure is None and self._needs_snapshots and self.recovery.is_due(done):
            # During bad steps the guard's limit decides.
            if self.guard.consecutive_bad_steps:
                return None
            arrays = self.session.capture()
            damage = self._damage(arrays)
            if damage is None:
                return arrays
            if self.recovery.can_recover:
                failure = DamagedState(done - 1, damage)
        return self._recover(failure) if failure else None

    def _damage(self, arrays: Arrays) -> str | None:
        """The damage of the current state, as a clause without a full stop; else None."""
        if names := nonfinite_names(arrays):
            return f"{join_names(names)} hold non-finite values"
        return self.guard.damage

    def _close_epoch(self) -> None:
        epoch, batch = self._plan.position(self.totals.steps)
        if batch == 0:
            self._callback_buffer.event(self.totals.close_epoch(epoch - 1))
        elif self.is_done:
            # The epoch stays open: a run with more steps continues it.
            self._callback_buffer.event(self.totals.epoch.event(epoch, self.totals.steps - 1))

    def _evaluate(self) -> None:
        if self._evaluator is not None and self._plan.evaluates_after(self.totals.steps):
            with phase_span(Phase.EVALUATION):
                evaluation = self._evaluator(self.session.evaluation_weights())
            is_best = self.best is not None and self._is_best(self.best, evaluation)
            self._callback_buffer.event(self.totals.keep(evaluation, is_best=is_best))
            if self.best is not None and self.best.has_stopped:
                self._callback_buffer.event(
                    self.best.stopped_event(
                        self.last_epoch(self.best.state.steps), self.last_epoch(self.totals.steps)
                    )
                )

    def _is_best(self, best: BestEvaluation, evaluation: Evaluation) -> bool:
        """Whether the evaluation is the best so far; then its weights are kept if needed."""
        epochs, _ = self._plan.position(self.totals.steps)
        is_best = best.observe(
            evaluation, steps=self.totals.steps, epochs=epochs, is_last=self.steps_left <= 0
        )
        if is_best and best.keeps_weights:
            self.best_arrays = self.session.capture_model()
        return is_best

    def last_epoch(self, done: int) -> int:
        """The epoch of the last of `done` steps, counted from 0."""
        epoch, _ = self._plan.position(max(done - 1, 0))
        return epoch

    def _recover(self, failure: GuardFailure) -> Arrays | None:
        """Roll back to the good state; returns the state that replaces it, if any."""
        good = self.recovery.take_recovery_state(failure)
        if self._spec.guard.on_exceeded == "rollback":
            self.session.restore(good.arrays)
            self.session.lower_scales(recovery.ROLLBACK_SCALE_FACTOR**good.rollbacks)
            self.guard.reset()
            self._callback_buffer.event(
                recovery.rollback_event(failure, good, self.session.smallest_scale)
            )
            return None
        event = recovery.fallback_event(failure, good, self.session.policies.name)
        self._fall_back_to_float32(good.arrays)
        self._callback_buffer.event(event)
        return self.session.capture() if self._needs_snapshots else None

    def _fall_back_to_float32(self, arrays: Arrays) -> None:
        engine = self.session.engine or "graph"
        session = self._context.build_session(float32=True)
        variables, _ = session.split_loss_scales(arrays)
        session.restore(session.match_variables(variables), scales=False)
        session.use_engine(engine, min(self.totals.steps, self._plan.total_steps - 1))
        self.recovery.mark_float32_fallback()
        self.emit_scale_table()
        self._use_session(session)

    def _warn_about_damage(self, block: StepBlock) -> None:
        """Warn once when a step was applied although its loss or gradient norm is not finite."""
        damaging = nonfinite_applied_steps(block)
        if not damaging.any() or self._warned_of_damage:
            return
        self._warned_of_damage = True
        first = int(damaging.argmax())
        if math.isfinite(block["loss"][first]):
            code, what = "non_finite_gradients", "gradient norm"
        else:
            code, what = "non_finite_loss", "loss"
        message = f"The {what} is not finite, but the step was applied."
        self._callback_buffer.event(Event.warning(code, message, block.first_step + first))


def _validation_batch(validation: Examples | BatchSource, spec: RunSpec) -> int:
    """The examples of a batch; batches that arrive have a size of their own."""
    return validation.batch_size if isinstance(validation, BatchSource) else spec.data.batch_size
