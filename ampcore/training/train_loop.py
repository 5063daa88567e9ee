"""The order of a run: blocks of steps, and what happens before and after each of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from ampcore.diagnostics.steps.attribution import Attribution
from ampcore.training.ranks.overflow import overflow_causes_of_ranks
from ampcore.training.reports.epoch_reports import NoReports
from ampcore.training.reports.epochs import close_epoch
from ampcore.training.result.check import check_result
from ampcore.training.run.guard import damage_warning
from ampcore.training.run.rollback import apply_guard, keep_state, steps_to_snapshot
from ampcore.training.run.run import Run
from ampcore.training.run.saving import save
from ampcore.training.step.loop import STOP_AT_SKIP
from ampspec.telemetry import StepBlock
from ampspec.telemetry.activities import Activity
from ampspec.telemetry.scale_events import OverflowCauses, scale_events


def train(run: Run, reports: NoReports, should_stop: Callable[[], bool]) -> None:
    """Train until the run is complete, or until a rank is asked to stop.

    Raises:
        TrainingError: The run failed.
    """
    reports.begin()
    while not run.is_done and not any(run.context.communicator.all_gather_object(should_stop())):
        reports.before_block()
        train_block(run)
        reports.after_block()
    reports.end()
    if run.is_done:
        run.emit(run.recorder.finish_if_done(run.runner, is_last=True))
        check_result(run)


def train_block(run: Run, until: int | None = None) -> None:
    """Train one block: profile, sample, step, report, explain, recover, evaluate, save.

    Args:
        run: The run.
        until: The number of steps at which the block ends at the latest; None: any.
    """
    runner, diagnostics, first_step = run.runner, run.diagnostics, run.totals.steps
    run.emit(run.recorder.before_block(first_step))
    with _diagnosing(run, is_due=diagnostics.is_sample_due(first_step)):
        run.emit(diagnostics.before_block(first_step))
    run.emit(run.repeater.before_block(runner, first_step))

    # Which skip is explained depends on the time; all ranks stop at the same one.
    stops_at_skip = run.context.communicator.broadcast_object(diagnostics.explains_next_skip)
    stop = STOP_AT_SKIP if stops_at_skip else run.guard.stop_condition
    block = runner.run_block(first_step, max_steps=_max_steps(run, until), stop=stop)

    run.recorder.after_block(len(block), block.stats.duration_s)
    run.totals.add(block, is_warm=run.is_warm)
    run.emit(run.ranks.after_block(runner, block, run.totals.steps, is_warm=run.is_warm))
    run.is_warm = True
    run.callback_buffer.block(block)
    # Now, while the state is still that of the skipped last step.
    causes = _overflow_causes(run, block, stops_at_skip=stops_at_skip)
    run.emit(scale_events(block, runner.state.scale_by_network, causes))
    run.emit(diagnostics.spikes(block))
    _warn_about_damage(run, block)
    good_state = apply_guard(run, block)
    run.emit(close_epoch(run))
    if run.evaluations.evaluates_after(run.totals.steps):
        with run.callback_buffer.during(Activity.EVALUATING):
            run.emit(run.evaluations.after_block(run.runner, run.totals))
    if good_state is not None:
        keep_state(run, good_state)
    if run.checkpoints.check_due():
        with run.callback_buffer.during(Activity.SAVING):
            save(run)
    run.emit(run.recorder.finish_if_done(run.runner))


def _diagnosing(run: Run, *, is_due: bool) -> AbstractContextManager[None]:
    """Report that the run diagnoses inside, if it does."""
    return run.callback_buffer.during(Activity.DIAGNOSING) if is_due else nullcontext()


def _max_steps(run: Run, until: int | None) -> int | None:
    """The most steps of the next block, if there is a limit."""
    done = run.totals.steps
    limits = (
        steps_to_snapshot(run),
        run.diagnostics.steps_until_sample(done),
        run.recorder.max_steps(done),
        run.repeater.max_steps(done),
        run.ranks.max_steps(done),
        None if until is None else until - done,
    )
    return min((limit for limit in limits if limit is not None), default=None)


def _overflow_causes(run: Run, block: StepBlock, *, stops_at_skip: bool) -> OverflowCauses:
    """Why the last step of the block was skipped, if the block stopped to explain it."""
    with _diagnosing(run, is_due=stops_at_skip and bool(block["skipped"][-1])):
        causes = run.diagnostics.after_block(block, stopped_at_skip=stops_at_skip)
    if stops_at_skip and block["skipped"][-1]:
        causes = overflow_causes_of_ranks(run.context.communicator, causes)
    for cause in causes.values():
        # A loss scale that was too high backs off: then the run was only too short.
        is_scale = cause["attribution"] == Attribution.LOSS_SCALE
        run.diagnosis = None if is_scale else cause["sentence"]
    return causes


def _warn_about_damage(run: Run, block: StepBlock) -> None:
    """Warn once when a step was applied although its loss or gradient norm is not finite."""
    if not run.warned_of_damage and (warning := damage_warning(block)) is not None:
        run.warned_of_damage = True
        run.emit([warning])
