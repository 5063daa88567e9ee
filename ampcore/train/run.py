"""One run of a job: trains block by block; evaluates, saves and recovers between blocks."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ampcore.checkpoint import Checkpoint, nonfinite_names
from ampcore.checkpoint.state import Arrays
from ampcore.data import Dataset
from ampcore.diagnostics.attribution import Attribution
from ampcore.diagnostics.input_statistics import InputStatistics
from ampcore.profile.phases import Phase
from ampcore.profile.recorder import ProfileRecorder
from ampcore.profile.scopes import phase_span
from ampcore.train import recovery
from ampcore.train.callback_buffer import CallbackBuffer
from ampcore.train.counters import GoodStateCounters, RunCounters
from ampcore.train.guard import DamagedState, Guard, GuardFailure, damage_warning, nonfinite_advice
from ampcore.train.joint_saver import Saver
from ampcore.train.loop import HALT_ON_SKIP
from ampcore.train.rank_agreement import check_equal_state, share_state
from ampcore.train.rank_overflow import overflow_causes_of_ranks
from ampcore.train.rank_times import RankTimes
from ampcore.train.recovery import GoodState, Recovery
from ampcore.train.repeat import repeat_step
from ampcore.train.resume import good_arrays, restore
from ampcore.train.run_checkpoints import RunCheckpoints, StateToSave
from ampcore.train.run_context import RunContext
from ampcore.train.run_diagnostics import RunDiagnostics
from ampcore.train.run_evaluations import RunEvaluations
from ampcore.train.session import Session
from ampcore.train.totals import Totals
from ampspec.documents.text import join_names
from ampspec.errors import NonFiniteResult
from ampspec.precision.devices import DeviceInfo
from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.scale_events import scale_events

UNLIMITED: Final = 2**31 - 1
MAX_FIRST_SKIPS: Final = 32
"""How many skipped steps at the start of a run do not count as skipped."""
VALIDATION_LOSS: Final = "val_loss"
SKIPS_ADVICE: Final = (
    "The overflow events say why: a loss scale that is still too high (train for more steps, or "
    "lower loss_scale.initial), an operation, or the data."
)
"""More bad steps in a row than any run has."""


class Run:
    """A run in progress: its session and its counters."""

    def __init__(
        self,
        context: RunContext,
        saver: Saver,
        callback_buffer: CallbackBuffer,
        *,
        float32: bool,
        recorder: ProfileRecorder | None = None,
    ) -> None:
        self._context, self._callback_buffer = context, callback_buffer
        self.recorder = recorder or ProfileRecorder(context.device, None)
        self._spec, self._plan = context.job.spec, context.plan
        self._checkpoints = RunCheckpoints(saver, callback_buffer, self._spec, context.device.kind)
        self.totals = Totals()
        self.recovery = Recovery(self._spec, in_float32=float32)
        self._warned_of_damage = False
        self._epoch_event: Event | None = None
        self._diagnosis: str | None = None
        """What the last explained skip was due to, and what to do, unless the loss scale was."""
        self.stopped_by_callback: int | None = None
        """The epoch after which a callback of Keras has ended the run."""
        self._replicas = context.replicas
        self.rank_times = RankTimes(self._replicas.size)
        self._use_session(context.build_session(float32=float32))
        self.evaluations = RunEvaluations(context, self.session.task)

    def _use_session(self, session: Session) -> None:
        self.session = session
        self.diagnostics = RunDiagnostics(
            session,
            self._spec.telemetry.ranges,
            self._plan.total_steps,
            is_replay=self._context.is_replay,
            is_leader=self._replicas.rank == 0,
        )
        self._compiled = False
        limit = self._spec.guard.max_consecutive_skips
        if self._context.is_replay and self._spec.guard.on_exceeded == "fail":
            # The run itself may have been retried after it had failed.
            limit = UNLIMITED
        self.guard = Guard(limit, checked=session.checks_finite)

    @property
    def device(self) -> DeviceInfo:
        """The device that it trains on."""
        return self._context.device

    @property
    def dataset(self) -> Dataset:
        """The examples."""
        return self._context.dataset

    @property
    def batch_size(self) -> int:
        """The examples of a micro-batch."""
        return self._spec.data.batch_size

    @property
    def is_done(self) -> bool:
        """Whether all steps of the plan are completed, or the run has stopped early."""
        return self.steps_left <= 0 or self.has_stopped_early

    @property
    def has_stopped_early(self) -> bool:
        """Whether the run has ended before its last step, but is complete."""
        return self.evaluations.has_stopped_early or self.stopped_by_callback is not None

    @property
    def position(self) -> tuple[int, int]:
        """The epoch of the next step, and its batch in that epoch; both count from 0."""
        return self._plan.position(self.totals.steps)

    @property
    def epochs(self) -> int:
        """The number of epochs of the plan, the last one of which may have fewer steps."""
        return -(-self._plan.total_steps // self._plan.steps_per_epoch)

    @property
    def steps_per_epoch(self) -> int:
        """The steps of an epoch."""
        return self._plan.steps_per_epoch

    @property
    def steps_left(self) -> int:
        """The number of remaining steps of the plan."""
        return self._plan.total_steps - self.totals.steps

    def start(self) -> Sequence[Event]:
        """Begin at the first step, with the job's initial weights; returns what they are."""
        events: Sequence[Event] = ()
        if self._replicas.rank == 0:
            events = self._context.job.set_initial_weights(self.session.task)
        share_state(self.session)
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
        # Which skip is explained depends on the time; all ranks stop at the same one.
        stop_at_skip = self._replicas.broadcast_object(self.diagnostics.explains_next_skip)
        halt = HALT_ON_SKIP if stop_at_skip else self.guard.halt
        block = self.session.run_block(self.totals.steps, max_steps=self._limit(until), halt=halt)
        self.recorder.after_block(len(block), block.stats.duration_s)
        self.totals.add(block, is_warm=self._compiled)
        self._observe_ranks(block)
        self._compiled = True
        self._callback_buffer.block(block)
        # Now, while the state is still that of the skipped last step.
        overflow_causes = self.diagnostics.after_block(block, stopped_at_skip=stop_at_skip)
        if stop_at_skip and block["skipped"][-1]:
            overflow_causes = overflow_causes_of_ranks(self._replicas, overflow_causes)
        for cause in overflow_causes.values():
            # A loss scale that was too high backs off: then the run was only too short.
            is_scale = cause["attribution"] == Attribution.LOSS_SCALE
            self._diagnosis = None if is_scale else cause["sentence"]
        for event in scale_events(block, self.session.scale_by_network, overflow_causes):
            self._callback_buffer.event(event)
        for event in self.diagnostics.spikes(block):
            self._callback_buffer.event(event)
        self._warn_about_damage(block)
        good = self._apply_guard(block)
        self._close_epoch()
        self._emit(self.evaluations.after_block(self.session, self.totals))
        if good is not None:
            self._keep_snapshot(good)
        if self._checkpoints.check_due():
            self.save()
        self._emit(self.recorder.finish_if_done(self.session))

    def _observe_ranks(self, block: StepBlock) -> None:
        """Compare the times of the ranks, and after some steps their weights."""
        if self._replicas.size == 1:
            return
        own = [block.stats.duration_s, self.session.communication_s]
        reports = self._replicas.all_gather_object(own)
        done = self.totals.steps
        is_first = not self._compiled
        if not is_first:
            self.rank_times.observe(len(block), reports)
            if (changed := self.rank_times.changed_event(done - 1)) is not None:
                self._callback_buffer.event(changed)
        if is_first or done % self._spec.runtime.exchange.check_every_steps == 0:
            check_equal_state(self.session, done)

    def emit_rank_times(self) -> None:
        """Emit the times of the ranks, if there are several."""
        last = self.totals.steps - 1
        if self._replicas.size > 1 and (event := self.rank_times.event(last)) is not None:
            self._callback_buffer.event(event)

    def finish_profiles(self) -> None:
        """Stop a profile in progress, and emit the reports that are still missing."""
        self._emit(self.recorder.finish_if_done(self.session, is_last=True))

    def _emit(self, events: Iterable[Event]) -> None:
        for event in events:
            self._callback_buffer.event(event)

    def check_result(self) -> None:
        """Check that a completed run has a result that is of use.

        Raises:
            NonFiniteResult: The weights, statistics, averages, the loss or the last evaluation are
                not finite, or more steps were skipped than the guard allows.
        """
        if (damage := self._damage_of_result()) is not None:
            advice = self._diagnosis or nonfinite_advice(self._spec)
        elif (damage := self._nonfinite_evaluation()) is not None:
            advice = self._advice_on_validation()
        elif (skips := self._too_many_skips()) is not None:
            damage, advice = skips, self._diagnosis or SKIPS_ADVICE
        else:
            return
        raise NonFiniteResult(
            f"No model was saved after {self.totals.steps} steps: {damage}. {advice}"
        )

    def _damage_of_result(self) -> str | None:
        loss = self.totals.final_loss
        if names := self.session.nonfinite_names():
            return f"{join_names(names)} hold non-finite values"
        if not math.isfinite(loss) and self.totals.skipped < self.totals.steps:
            return f"the last loss is {loss}"
        if self.guard.damage is not None:
            return self.guard.damage
        best = self.evaluations.best_arrays
        if best is None or not (names := self.session.nonfinite_on_any_rank(nonfinite_names(best))):
            return None
        return f"{join_names(names)} of the best evaluation hold non-finite values"

    def _nonfinite_evaluation(self) -> str | None:
        """The validation loss of the weights that are kept, if it is not finite."""
        if self.evaluations.best_arrays is not None:
            return None
        losses = {
            name: value
            for name, value in self.totals.evaluation.items()
            if name.startswith(VALIDATION_LOSS) and not math.isfinite(value)
        }
        for name, value in losses.items():
            return f"{name} of the last evaluation is {value}"
        return None

    def _advice_on_validation(self) -> str:
        """What to do about an evaluation that is not finite, of weights that are."""
        validation = self.dataset.validation
        statistics = InputStatistics.of(validation) if validation is not None else None
        names = [str(extreme.example) for extreme in statistics.extremes] if statistics else []
        if not names:
            return self._diagnosis or nonfinite_advice(self._spec)
        noun = "example has" if len(names) == 1 else "examples have"
        return (
            f"The validation {noun} values that are not finite, or far from all others: "
            f"{join_names(names)}. Repair or remove them, and resume the run from its checkpoint."
        )

    def _too_many_skips(self) -> str | None:
        skipped, steps = self.totals.skipped, self.totals.steps
        limit = self._spec.guard.max_skipped_share
        if skipped == steps > 0:
            return "every step was skipped, and nothing was learned"
        # At the start a loss scale may back off once a step, from its maximum down to 1.
        first_skips = min(self.totals.first_skips, MAX_FIRST_SKIPS)
        if skipped - first_skips <= limit * (steps - first_skips):
            return None
        return (
            f"{skipped:,} of them ({skipped / steps:.1%}) were skipped, more than "
            f"guard.max_skipped_share ({limit:.0%}) allows"
        )

    def save(self) -> None:
        """Save the current state; if it is damaged, the last good one instead."""
        if not self._checkpoints.is_enabled:
            return
        with phase_span(Phase.CHECKPOINT):
            arrays = self.session.state_to_save()
        if damage := self._damage(arrays):
            self._checkpoints.save_good_state(
                self.session, self.recovery.good, self.totals.steps, damage
            )
        else:
            self._checkpoints.save(self.session, self._checkpoint(arrays))
        if not self._needs_snapshots:
            self.recovery.discard()

    def _checkpoint(self, arrays: Mapping[str, Any]) -> StateToSave:
        """The current state with these arrays, and the good state that it may return to."""
        good = self.recovery.good if self.recovery.can_recover else None
        if good is not None and good.steps == self.totals.steps:
            good = None  # the same state
        return StateToSave(
            self.totals.steps,
            arrays,
            self._counters(good).to_json(),
            good.arrays if good else None,
            self.evaluations.best_arrays,
        )

    def emit_scale_table(self) -> None:
        """Emit the loss-scale table (underflow and overflow at each scale), if sampled."""
        if table := self.diagnostics.scale_table(self.totals.steps - 1):
            self._callback_buffer.event(table)

    @property
    def _needs_snapshots(self) -> bool:
        """Whether good states are kept: for rollbacks, or while there is no checkpoint yet.

        There need not be room for a second copy of a table that is on several ranks.
        """
        no_checkpoint = self._checkpoints.is_enabled and self._checkpoints.saved_steps is None
        return self.recovery.can_recover or (no_checkpoint and not self.session.shards)

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
        if self._replicas.size > 1:
            every = self._spec.runtime.exchange.check_every_steps
            limits.append(every - done % every)
        return min((limit for limit in limits if limit is not None), default=None)

    def _keep_snapshot(self, arrays: Arrays) -> None:
        counters = self._counters().to_json()
        self.recovery.keep(
            GoodState(arrays, self.totals.steps, counters, best=self.evaluations.best_arrays)
        )

    def restore(self, found: Checkpoint) -> None:
        """Resume from a checkpoint. Raises IncompatibleCheckpoint."""
        restore(self.session, found)
        self._checkpoints.resumed_from(found.manifest)
        counters = RunCounters.from_manifest(found.manifest)
        self.totals = counters.totals
        # A run that failed at the limit and is retried may have as many bad steps again.
        limit = self._spec.guard.max_consecutive_skips
        self.guard.consecutive_bad_steps = counters.guard_row if counters.guard_row < limit else 0
        self._warned_of_damage = counters.warned_of_damage
        self.diagnostics.restore(counters.diagnosis)
        self.evaluations.restore(counters.best, found.best_arrays, self.totals.steps)
        if self.recovery.can_recover:
            self.recovery.keep(self._restored_good_state(found, counters.good_state))

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
            best=self.evaluations.state,
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

    def _damage(self, arrays: Mapping[str, Any]) -> str | None:
        """The damage of the current state, as a clause without a full stop; else None."""
        if names := self.session.nonfinite_on_any_rank(nonfinite_names(arrays)):
            return f"{join_names(names)} hold non-finite values"
        return self.guard.damage

    def _close_epoch(self) -> None:
        epoch, batch = self.position
        self._epoch_event = None
        if batch == 0:
            self._epoch_event = self.totals.close_epoch(epoch - 1)
        elif self.is_done:
            # The epoch stays open: a run with more steps continues it.
            self._epoch_event = self.totals.epoch.event(epoch, self.totals.steps - 1)
        if self._epoch_event is not None:
            self._callback_buffer.event(self._epoch_event)

    def epoch_logs(self) -> dict[str, float] | None:
        """The loss of the epoch that the last block has ended, and what was measured after it.

        None if the epoch goes on.
        """
        if self._epoch_event is None:
            return None
        epoch = self._epoch_event.data
        return {
            "loss": epoch["loss"],
            **(
                self.totals.evaluation
                if self.evaluations.evaluates_after(self.totals.steps)
                else {}
            ),
            "learning_rate": float(self.session.optimizers[0].learning_rate),
            "loss_scale": self.session.smallest_scale,
            "skipped_steps": epoch["skipped"],
        }

    def stop_by_callback(self) -> None:
        """End the run after this epoch, as a callback has asked for, unless it is complete."""
        if self.is_done:
            return
        self._emit(self.evaluations.before_early_end(self.session, self.totals))
        self.stopped_by_callback = self.evaluations.last_epoch(self.totals.steps)
        message = f"A callback stopped the training after epoch {self.stopped_by_callback}."
        data = {"epoch": self.stopped_by_callback, "message": message}
        self._callback_buffer.event(Event(EventType.STOPPED_EARLY, self.totals.steps - 1, data))

    def _recover(self, failure: GuardFailure) -> Arrays | None:
        """Roll back to the good state; returns the state that replaces it, if any."""
        good = self.recovery.take_recovery_state(failure, self._diagnosis)
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
        self.evaluations.use_task(session.task)

    def _warn_about_damage(self, block: StepBlock) -> None:
        """Warn once when a step was applied although its loss or gradient norm is not finite."""
        if not self._warned_of_damage and (warning := damage_warning(block)) is not None:
            self._warned_of_damage = True
            self._callback_buffer.event(warning)
