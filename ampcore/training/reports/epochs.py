"""The epochs of a run: their events, their logs, and an end that a callback asks for."""

from collections.abc import Iterator

from ampcore.training.run.run import Run
from ampspec.telemetry import Event, EventType
from ampspec.telemetry.activities import Activity


def close_epoch(run: Run) -> Iterator[Event]:
    """The event of the epoch that the last block has ended, if it has ended one."""
    epoch, batch = run.position
    run.epoch_event = None
    if batch == 0:
        run.epoch_event = run.totals.close_epoch(epoch - 1)
    elif run.is_done:
        # The epoch stays open: a run with more steps continues it.
        run.epoch_event = run.totals.epoch.event(epoch, run.totals.steps - 1)
    if run.epoch_event is not None:
        yield run.epoch_event


def epoch_logs(run: Run) -> dict[str, float] | None:
    """The loss of the epoch that the last block has ended, and what was measured after it.

    None if the epoch goes on.
    """
    if run.epoch_event is None:
        return None
    epoch, steps = run.epoch_event.data, run.totals.steps
    return {
        "loss": epoch["loss"],
        **(run.totals.evaluation if run.evaluations.evaluates_after(steps) else {}),
        "learning_rate": float(run.runner.train_step.optimizers[0].learning_rate),
        "loss_scale": run.runner.state.smallest_scale,
        "skipped_steps": epoch["skipped"],
    }


def stop_by_callback(run: Run) -> None:
    """End the run after this epoch, as a callback has asked for, unless it is complete."""
    if run.is_done:
        return
    with run.callback_buffer.during(Activity.EVALUATING):
        run.emit(run.evaluations.before_early_end(run.runner, run.totals))
    run.stopped_by_callback = run.evaluations.last_epoch(run.totals.steps)
    message = f"A callback stopped the training after epoch {run.stopped_by_callback}."
    data = {"epoch": run.stopped_by_callback, "message": message}
    run.emit([Event(EventType.STOPPED_EARLY, run.totals.steps - 1, data)])
