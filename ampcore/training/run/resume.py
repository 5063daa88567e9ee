"""Checkpoints of a runner: its manifest, the checkpoint to resume from, and restoring it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ampcore import checkpoint
from ampcore.checkpoint import Checkpoint, FieldChange, Manifest, StoredCheckpoint
from ampcore.checkpoint.saver import FOLDER, versions
from ampcore.checkpoint.state import Arrays
from ampcore.training.step.step_runner import StepRunner
from ampspec.errors import UnreadableCheckpoint
from ampspec.telemetry import Event, EventType
from ampspec.training.run import RunSpec


def manifest(
    spec: RunSpec,
    runner: StepRunner,
    device: str,
    steps: int,
    counters: dict[str, Any],
    *,
    engine: str,
) -> Manifest:
    """The manifest of a runner's checkpoint after `steps` steps."""
    return Manifest(
        step=steps,
        spec=spec.to_json(),
        policy=runner.policies.name,
        loss_scales={network.name: runner.state.scale_spec for network in runner.networks},
        engine=engine,
        device=device,
        versions=versions(),
        counters=counters,
    )


def newest(
    folder: Path, spec: RunSpec, *, mapped: bool = False
) -> tuple[StoredCheckpoint | None, list[FieldChange], list[Event]]:
    """The newest checkpoint that can be read.

    Args:
        folder: The checkpoints.
        spec: The job that resumes.
        mapped: Whether each rank needs only some rows of large arrays.

    Returns:
        The checkpoint, or None; the job's changes since it was saved; and a warning for each newer
        checkpoint that cannot be read.

    Raises:
        UnreadableCheckpoint: There are checkpoints, but none can be read.
        IncompatibleCheckpoint: The newest one belongs to another job.
    """
    unreadable: list[UnreadableCheckpoint] = []
    stored = checkpoint.newest(folder, unreadable.append, mapped=mapped)
    if stored is None and unreadable:
        raise unreadable[0]
    warnings = [
        Event.warning("unreadable_checkpoint", f"{error} Using an older checkpoint.")
        for error in unreadable
    ]
    if stored is None:
        return None, [], warnings
    return stored, checkpoint.check_compatible(stored.checkpoint.manifest, spec), warnings


def restore(runner: StepRunner, saved: Checkpoint) -> None:
    """Restore a runner from a checkpoint, which may have another precision.

    Loss scales of the same kind are restored, within their current bounds; others start again.

    Raises:
        IncompatibleCheckpoint: Its arrays are not those of the runner's variables.
    """
    variables, scales = _arrays_for_runner(runner, saved.manifest, saved.arrays)
    runner.state.restore(variables, scales=False)
    runner.state.restore_scales(scales)


def good_arrays(runner: StepRunner, saved: Checkpoint) -> Arrays | None:
    """The good state in a checkpoint, for `TrainState.restore`; None without one.

    Raises:
        IncompatibleCheckpoint: Its arrays are not those of the runner's variables.
    """
    if saved.good_arrays is None:
        return None
    variables, scales = _arrays_for_runner(runner, saved.manifest, saved.good_arrays)
    return variables | scales


def _arrays_for_runner(
    runner: StepRunner, origin: Manifest, arrays: Mapping[str, NDArray[Any]]
) -> tuple[Arrays, Arrays]:
    """The variables, in the dtypes of the runner, and the states of its loss scales."""
    variables, scales = runner.state.split_loss_scales(arrays)
    scale_before: Mapping[str, Any] = next(iter(origin.loss_scales.values()))
    scale_now = runner.state.scale_spec
    is_same = scale_before["mode"] == scale_now["mode"] and scale_before.get(
        "scale"
    ) == scale_now.get("scale")
    # A version with fewer counters in a scale's state did not write the others.
    restored_scales = runner.state.first_scales | scales if is_same else runner.state.first_scales
    return runner.state.match_variables(variables), restored_scales


def resumed_event(stored: StoredCheckpoint, differences: list[FieldChange]) -> Event:
    """The event of a resumed run: the checkpoint, and the job's changes since."""
    origin = stored.checkpoint.manifest
    data = {
        "file": f"{FOLDER}/{stored.file.name}",
        "steps": origin.step,
        "policy_before": origin.policy,
        "changed": [str(difference) for difference in differences],
    }
    return Event(EventType.RESUMED, origin.step, data)
