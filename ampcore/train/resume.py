"""A session's checkpoint: what it holds, which one a run resumes from, and how it is restored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ampcore import checkpoint
from ampcore.checkpoint import Checkpoint, Difference, Manifest, StoredCheckpoint
from ampcore.checkpoint.saver import FOLDER, versions
from ampcore.checkpoint.state import Arrays
from ampcore.errors import UnreadableCheckpoint
from ampcore.spec import JobSpec
from ampcore.telemetry import Event, EventType
from ampcore.train.session import Session


def manifest(
    spec: JobSpec,
    session: Session,
    device: str,
    steps: int,
    counters: dict[str, Any],
    *,
    engine: str,
) -> Manifest:
    """The manifest of a session's checkpoint after `steps` steps."""
    return Manifest(
        step=steps,
        spec=spec.to_json(),
        policy=session.policies.name,
        loss_scales={network.name: session.scale_spec for network in session.networks},
        engine=engine,
        device=device,
        versions=versions(),
        counters=counters,
    )


def newest(
    folder: Path, spec: JobSpec
) -> tuple[StoredCheckpoint | None, list[Difference], list[Event]]:
    """The newest checkpoint that can be read.

    Returns:
        The checkpoint, None where there is none; what the job has changed since it was saved; and
        a warning for each newer one that cannot be read.

    Raises:
        UnreadableCheckpoint: There are checkpoints, and none can be read.
        IncompatibleCheckpoint: The newest one is another job's.
    """
    unreadable: list[UnreadableCheckpoint] = []
    found = checkpoint.newest(folder, unreadable.append)
    if found is None and unreadable:
        raise unreadable[0]
    warnings = [
        Event.warning("unreadable_checkpoint", f"{error} Using an older checkpoint.")
        for error in unreadable
    ]
    if found is None:
        return None, [], warnings
    return found, checkpoint.check_compatible(found.checkpoint.manifest, spec), warnings


def restore(session: Session, found: Checkpoint) -> None:
    """Put a session into the state of a checkpoint, of another precision or not.

    The loss scales are taken over where they are of the same kind, within the bounds that hold
    now; others begin anew.

    Raises:
        IncompatibleCheckpoint: Its arrays are not those of the session's variables.
    """
    variables, scales = _arrays_for_session(session, found.manifest, found.arrays)
    session.restore(variables, scales=False)
    session.restore_scales(scales)


def good_arrays(session: Session, found: Checkpoint) -> Arrays | None:
    """The good state in a checkpoint, as `Session.restore` takes it; None when it holds none.

    Raises:
        IncompatibleCheckpoint: Its arrays are not those of the session's variables.
    """
    if found.good_arrays is None:
        return None
    variables, scales = _arrays_for_session(session, found.manifest, found.good_arrays)
    return variables | scales


def _arrays_for_session(
    session: Session, made: Manifest, found: Mapping[str, NDArray[Any]]
) -> tuple[Arrays, Arrays]:
    """The variables, in the dtypes of the session, and the states of its loss scales."""
    variables, scales = session.split_loss_scales(found)
    before: Mapping[str, Any] = next(iter(made.loss_scales.values()))
    now = session.scale_spec
    is_same = before["mode"] == now["mode"] and before.get("scale") == now.get("scale")
    # A version that counted less of a scale's state has left out the rest.
    kept = session.first_scales | scales if is_same else session.first_scales
    return checkpoint.match_arrays(variables, session.expected_arrays()), kept


def resumed_event(found: StoredCheckpoint, differences: list[Difference]) -> Event:
    """The event of a run that resumes: from which checkpoint, and what the job has changed."""
    made = found.checkpoint.manifest
    data = {
        "file": f"{FOLDER}/{found.file.name}",
        "steps": made.step,
        "policy_before": made.policy,
        "changed": [str(difference) for difference in differences],
    }
    return Event(EventType.RESUMED, made.step, data)
