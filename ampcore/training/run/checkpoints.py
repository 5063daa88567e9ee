"""The checkpoints that a run writes, and what it says when it cannot write one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ampcore.checkpoint import Checkpoint, Manifest
from ampcore.checkpoint.state import Arrays
from ampcore.phase_scopes import phase_span
from ampcore.phases import Phase
from ampcore.training.callback_buffer import CallbackBuffer
from ampcore.training.ranks.joint_saver import Saver
from ampcore.training.run.recovery import GoodState
from ampcore.training.run.resume import manifest
from ampcore.training.step.step_runner import StepRunner
from ampspec.telemetry import Event
from ampspec.training.run import RunSpec


@dataclass(frozen=True)
class StateToSave:
    """A state of a run, as it is written into a checkpoint."""

    steps: int
    arrays: Mapping[str, Any]
    """Copied, or read from the variables while they are written."""
    counters: dict[str, Any]
    good_arrays: Arrays | None = None
    """The state that the run may return to, if it is another one."""
    best: Arrays | None = None
    """The weights of the best evaluation, if the spec keeps them."""


class RunCheckpoints:
    """Writes the checkpoints of a run.

    Args:
        saver: Writes files, and knows when the next one is due.
        callback_buffer: Gets the events; flushed before each checkpoint.
        spec: The spec of the run.
        device: The kind of the device that it trains on.
    """

    def __init__(
        self, saver: Saver, callback_buffer: CallbackBuffer, spec: RunSpec, device: str
    ) -> None:
        self._saver, self._callback_buffer = saver, callback_buffer
        self._spec, self._device = spec, device
        self._warned_unsaved = False
        """Whether a warning was emitted that the current state is too damaged to be saved."""
        self._engine_before = "graph"

    @property
    def is_enabled(self) -> bool:
        """Whether the run writes checkpoints."""
        return self._saver.is_enabled

    def check_due(self) -> bool:
        """Whether it is time for the next one; all ranks ask together, and get one answer."""
        return self._saver.is_due()

    @property
    def saved_steps(self) -> int | None:
        """The completed steps in the newest checkpoint; None without one."""
        return self._saver.saved_steps

    def resumed_from(self, origin: Manifest) -> None:
        """Note the checkpoint that the run resumes from."""
        self._engine_before = origin.engine
        self._saver.saved_steps = origin.step

    def save(self, runner: StepRunner, state: StateToSave) -> None:
        """Write a state that is not damaged."""
        self._warned_unsaved = False
        self._write(runner, state)

    def save_good_state(
        self, runner: StepRunner, good_state: GoodState | None, steps: int, damage: str
    ) -> None:
        """Write the last good state in place of the damaged one after `steps`; warn once."""
        saved = self._saver.saved_steps
        if (
            good_state is not None
            and good_state.counters is not None
            and (saved is None or good_state.steps > saved)
        ):
            state = StateToSave(
                good_state.steps, good_state.arrays, good_state.counters, best=good_state.best
            )
            self._write(runner, state)
        if self._warned_unsaved:
            return
        self._warned_unsaved = True
        resumed_steps = self._saver.saved_steps
        resumption = (
            "starts again at step 0"
            if resumed_steps is None
            else f"continues after {resumed_steps} steps"
        )
        message = (
            f"The state after {steps} steps was not saved: {damage}. A resumed run {resumption}."
        )
        self._callback_buffer.event(Event.warning("damaged_state", message, steps - 1))

    def _write(self, runner: StepRunner, state: StateToSave) -> None:
        # A resumed run does not report the steps before its checkpoint again.
        self._callback_buffer.flush()
        # A run that was already complete when it was resumed has no engine.
        engine = runner.engine or self._engine_before
        new_manifest = manifest(
            self._spec, runner, self._device, state.steps, state.counters, engine=engine
        )
        arrays, good_arrays, best = (
            None if shards is None else runner.tables.whole(shards)
            for shards in (state.arrays, state.good_arrays, state.best)
        )
        with phase_span(Phase.CHECKPOINT):
            saved = self._saver.save(Checkpoint(new_manifest, arrays or {}, good_arrays, best))
        self._callback_buffer.event(saved)
