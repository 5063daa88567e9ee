"""Keeps the states that a run may return to, and applies what `recovery` decides."""

from ampcore.checkpoint.state import Arrays
from ampcore.training.run import recovery
from ampcore.training.run.guard import DamagedState, GuardFailure
from ampcore.training.run.recovery import GoodState
from ampcore.training.run.run import Run
from ampspec.telemetry import StepBlock


def apply_guard(run: Run, block: StepBlock) -> Arrays | None:
    """Recover the run if it no longer learns; returns the current state if it is to be kept.

    Raises:
        TrainingError: The run cannot be recovered.
    """
    failure: GuardFailure | None = run.guard.observe(block)
    steps = run.totals.steps
    if failure is None and run.needs_snapshots and run.recovery.is_due(steps):
        # During non-finite steps the guard's limit decides.
        if run.guard.nonfinite_in_a_row:
            return None
        arrays = run.runner.state.capture()
        damage = run.damage(arrays)
        if damage is None:
            return arrays
        if run.recovery.can_recover:
            failure = DamagedState(steps - 1, damage)
    return _recover(run, failure) if failure else None


def keep_state(run: Run, arrays: Arrays) -> None:
    """Keep the current state for a rollback."""
    counters = run.counters().to_json()
    best = run.evaluations.best_arrays
    run.recovery.keep(GoodState(arrays, run.totals.steps, counters, best=best))


def steps_to_snapshot(run: Run) -> int | None:
    """The steps until the next state is kept; None: no state is kept."""
    steps = run.totals.steps
    return run.recovery.next_snapshot_step(steps) - steps if run.needs_snapshots else None


def _recover(run: Run, failure: GuardFailure) -> Arrays | None:
    """Roll back to the good state; returns the state that replaces it, if any."""
    good_state = run.recovery.take_recovery_state(failure, run.diagnosis)
    if run.spec.guard.on_exceeded == "rollback":
        state = run.runner.state
        state.restore(good_state.arrays)
        state.lower_scales(recovery.ROLLBACK_SCALE_FACTOR**good_state.rollbacks)
        run.guard.reset()
        run.emit([recovery.rollback_event(failure, good_state, state.smallest_scale)])
        return None
    event = recovery.fallback_event(failure, good_state, run.runner.policies.name)
    _fall_back_to_float32(run, good_state.arrays)
    run.emit([event])
    return run.runner.state.capture() if run.needs_snapshots else None


def _fall_back_to_float32(run: Run, arrays: Arrays) -> None:
    engine = run.runner.engine or "graph"
    runner = run.context.build_runner(float32=True)
    variables, _ = runner.state.split_loss_scales(arrays)
    runner.state.restore(runner.state.match_variables(variables), scales=False)
    runner.use_engine(engine, min(run.totals.steps, run.context.plan.total_steps - 1))
    run.recovery.mark_float32_fallback()
    run.emit(run.scale_table())
    run.use_runner(runner)
    run.evaluations.use_task(runner.task)
