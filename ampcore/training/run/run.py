"""A run in progress: what it trains, how far it is, and the parts that watch over it.

What happens in a block, and in which order, is in `train_loop`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ampcore.checkpoint import Checkpoint, nonfinite_names
from ampcore.profile.recorder import ProfileRecorder
from ampcore.training.callback_buffer import CallbackBuffer
from ampcore.training.context import RunContext
from ampcore.training.evaluation.evaluations import RunEvaluations
from ampcore.training.evaluation.totals import Totals
from ampcore.training.ranks.agreement import share_state
from ampcore.training.ranks.joint_saver import Saver
from ampcore.training.ranks.observer import RankObserver
from ampcore.training.run.checkpoints import RunCheckpoints
from ampcore.training.run.counters import GoodStateCounters, RunCounters
from ampcore.training.run.diagnostics import RunDiagnostics
from ampcore.training.run.guard import NonfiniteStepGuard
from ampcore.training.run.recovery import GoodState, Recovery
from ampcore.training.run.repeat import StepRepeater
from ampcore.training.run.resume import good_arrays, restore
from ampcore.training.step.step_runner import StepRunner
from ampspec.documents.text import join_names
from ampspec.telemetry import Event
from ampspec.training.run import RunSpec

UNLIMITED: Final = 2**31 - 1
"""More non-finite steps in a row than any run has."""


class Run:
    """A run in progress.

    Args:
        context: The job, its examples and its device.
        saver: Writes its checkpoints.
        callback_buffer: Gets its blocks and events.
        float32: Whether it continues in float32, to which it has fallen back.
        recorder: Records its profiles; None: it has none.

    Attributes:
        runner: Trains its blocks; another one after a fallback to float32.
        totals: How far it is.
        diagnosis: The cause of the last explained skip, and what to do, unless it was the loss
            scale.
        epoch_event: The event of the epoch that the last block has ended.
        stopped_by_callback: The epoch after which a callback of Keras has ended the run.
        is_warm: Whether a block has been trained, so that the next one does not compile.
        warned_of_damage: Whether a step was applied although its values were not finite.
    """

    def __init__(
        self,
        context: RunContext,
        saver: Saver,
        callback_buffer: CallbackBuffer,
        *,
        float32: bool,
        recorder: ProfileRecorder | None = None,
    ) -> None:
        spec, device = context.spec, context.device
        self.context, self.callback_buffer = context, callback_buffer
        self.recorder = recorder or ProfileRecorder(device, None)
        self.checkpoints = RunCheckpoints(saver, callback_buffer, spec, device.kind)
        self.totals = Totals()
        self.recovery = Recovery(spec, in_float32=float32)
        self.ranks = RankObserver(
            context.communicator.size, spec.runtime.exchange.check_every_steps
        )
        every = None if context.is_replay else spec.diagnostics.repeat_step_every
        self.repeater = StepRepeater(every, is_exact=device.kind == "cpu")
        self.warned_of_damage = False
        self.epoch_event: Event | None = None
        self.diagnosis: str | None = None
        self.stopped_by_callback: int | None = None
        self.use_runner(context.build_runner(float32=float32))
        self.evaluations = RunEvaluations(context, self.runner.task)

    def use_runner(self, runner: StepRunner) -> None:
        """Train with this runner from now on."""
        self.runner = runner
        self.is_warm = False
        self.diagnostics = RunDiagnostics(self.context, runner)
        limit = self.spec.guard.max_consecutive_skips
        if self.context.is_replay and self.spec.guard.on_exceeded == "fail":
            # The run itself may have been retried after it had failed.
            limit = UNLIMITED
        self.guard = NonfiniteStepGuard(limit, checked=runner.train_step.checks_finite)

    @property
    def spec(self) -> RunSpec:
        """The settings of the run."""
        return self.context.spec

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
        return self.context.plan.position(self.totals.steps)

    @property
    def steps_left(self) -> int:
        """The number of remaining steps of the plan."""
        return self.context.plan.total_steps - self.totals.steps

    @property
    def needs_snapshots(self) -> bool:
        """Whether good states are kept: for rollbacks, or while there is no checkpoint yet.

        There need not be room for a second copy of a table that is on several ranks.
        """
        no_checkpoint = self.checkpoints.is_enabled and self.checkpoints.saved_steps is None
        return self.recovery.can_recover or (no_checkpoint and not self.runner.tables.shards)

    def emit(self, events: Iterable[Event]) -> None:
        """Pass on these events, one after the other as they are made."""
        for event in events:
            self.callback_buffer.event(event)

    def damage(self, arrays: Mapping[str, Any]) -> str | None:
        """The damage of this state, as a clause without a full stop; None: there is none."""
        if names := self.runner.tables.nonfinite_on_any_rank(nonfinite_names(arrays)):
            return f"{join_names(names)} hold non-finite values"
        return self.guard.damage

    def scale_table(self) -> Iterator[Event]:
        """The loss-scale table (underflow and overflow at each scale), if sampled."""
        if table := self.diagnostics.scale_table(self.totals.steps - 1):
            yield table

    def counters(self, good_state: GoodState | None = None) -> RunCounters:
        """The counters of a checkpoint, with those of the good state in it."""
        kept = (
            GoodStateCounters(steps=good_state.steps, rollbacks=good_state.rollbacks)
            if good_state
            else None
        )
        return RunCounters(
            totals=self.totals,
            nonfinite_in_a_row=self.guard.nonfinite_in_a_row,
            warned_of_damage=self.warned_of_damage,
            in_float32=self.recovery.in_float32,
            diagnosis=self.diagnostics.to_json(),
            best=self.evaluations.state,
            good_state=kept,
        )

    def start(self) -> Sequence[Event]:
        """Begin at the first step, with the job's initial weights; returns what they are."""
        events: Sequence[Event] = ()
        if self.context.communicator.rank == 0:
            events = self.context.job.set_initial_weights(self.runner.task)
        share_state(self.runner)
        if self.needs_snapshots:
            counters = self.counters().to_json()
            self.recovery.keep(GoodState(self.runner.state.capture(), 0, counters))
        return events

    def restore(self, checkpoint: Checkpoint) -> None:
        """Resume from a checkpoint. Raises IncompatibleCheckpoint."""
        restore(self.runner, checkpoint)
        self.checkpoints.resumed_from(checkpoint.manifest)
        counters = RunCounters.from_manifest(checkpoint.manifest)
        self.totals = counters.totals
        # A run that failed at the limit and is retried may have as many non-finite steps again.
        limit = self.spec.guard.max_consecutive_skips
        in_a_row = counters.nonfinite_in_a_row
        self.guard.nonfinite_in_a_row = in_a_row if in_a_row < limit else 0
        self.warned_of_damage = counters.warned_of_damage
        self.diagnostics.restore(counters.diagnosis)
        self.evaluations.restore(counters.best, checkpoint.best_arrays, self.totals.steps)
        if self.recovery.can_recover:
            self.recovery.keep(self._restored_good_state(checkpoint, counters.good_state))

    def _restored_good_state(
        self, checkpoint: Checkpoint, counters: GoodStateCounters | None
    ) -> GoodState:
        arrays = good_arrays(self.runner, checkpoint)
        if arrays is None or counters is None:
            # Also during non-finite steps: the good state before them no longer exists.
            return GoodState(self.runner.state.capture(), self.totals.steps)
        return GoodState(arrays, counters.steps, rollbacks=counters.rollbacks)
