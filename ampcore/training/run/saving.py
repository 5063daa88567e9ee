"""Saves the state of a run; if it is damaged, the last good one instead."""

from collections.abc import Mapping
from typing import Any

from ampcore.phase_scopes import phase_span
from ampcore.phases import Phase
from ampcore.training.run.checkpoints import StateToSave
from ampcore.training.run.run import Run
from ampspec.telemetry.activities import Activity


def save(run: Run) -> None:
    """Save the current state; if it is damaged, the last good one instead."""
    if not run.checkpoints.is_enabled:
        return
    with phase_span(Phase.CHECKPOINT):
        arrays = run.runner.state.views()
    if damage := run.damage(arrays):
        run.checkpoints.save_good_state(
            run.runner, run.recovery.good_state, run.totals.steps, damage
        )
    else:
        run.checkpoints.save(run.runner, _state_to_save(run, arrays))
    if not run.needs_snapshots:
        run.recovery.discard()


def save_at_end(run: Run) -> None:
    """Save as `save`, after the last step of this attempt."""
    run.callback_buffer.activity(Activity.SAVING)
    save(run)


def _state_to_save(run: Run, arrays: Mapping[str, Any]) -> StateToSave:
    """The current state with these arrays, and the good state that it may return to."""
    good_state = run.recovery.good_state if run.recovery.can_recover else None
    if good_state is not None and good_state.steps == run.totals.steps:
        good_state = None  # the same state
    return StateToSave(
        run.totals.steps,
        arrays,
        run.counters(good_state).to_json(),
        good_state.arrays if good_state else None,
        run.evaluations.best_arrays,
    )
