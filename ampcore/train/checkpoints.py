"""When a run is saved, and how it goes on from what was saved."""

import platform
import time
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from ampcore import __version__, checkpoint
from ampcore.checkpoint import Checkpoint, Difference, Found, Manifest
from ampcore.errors import CheckpointFailed, UnreadableCheckpoint
from ampcore.series import Event, EventType
from ampcore.spec import JobSpec
from ampcore.train.report import warning
from ampcore.train.session import Session
from ampcore.train.state import Arrays

FOLDER: Final = "checkpoints"
"""In a job's output folder."""

KEPT: Final = 2
"""Whole checkpoints: the newest, and one before it."""

LIBRARIES: Final = ("keras", "numpy", "tensorflow-cpu", "tensorflow")


class Checkpoints:
    """Saves a run every so often; where a checkpoint cannot be saved, the run goes on.

    Without a folder nothing is saved, but it is told when a checkpoint would be due.
    """

    def __init__(self, folder: Path | None, every_s: float | None) -> None:
        self._folder, self._every_s = folder, every_s
        self._saved_at = time.monotonic()
        self.newest_steps: int | None = None
        """The steps that were done when the newest checkpoint was made; None without one."""

    @property
    def saves(self) -> bool:
        """Whether there is a place to save to."""
        return self._folder is not None

    def is_due(self) -> bool:
        """Whether it is time; true again when the interval has passed once more."""
        if self._every_s is None or time.monotonic() - self._saved_at < self._every_s:
            return False
        self._saved_at = time.monotonic()
        return True

    def save(self, made: Checkpoint) -> Event:
        """Save it, and drop the older ones; the event says what happened."""
        start, folder = time.perf_counter(), self._folder or Path()
        last = made.manifest.step - 1 if made.manifest.step else None
        try:
            file = checkpoint.save(folder, made)
            checkpoint.prune(folder, keep=KEPT)
        except (CheckpointFailed, OSError) as error:
            message = f"{error} The run goes on; the checkpoints before this one are untouched."
            return warning("checkpoint_failed", message, last)
        facts = {
            "file": f"{FOLDER}/{file.name}",
            "size_bytes": file.stat().st_size,
            "seconds": time.perf_counter() - start,
        }
        self.newest_steps = made.manifest.step
        return Event(EventType.CHECKPOINT_SAVED, last, facts)


def manifest(
    spec: JobSpec,
    session: Session,
    device: str,
    steps: int,
    counters: dict[str, Any],
    *,
    engine: str,
) -> Manifest:
    """What stands beside the arrays of a session after `steps` steps."""
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


@cache
def versions() -> dict[str, str]:
    """By distribution, those that decide what a step computes."""
    found = {"ampcore": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            continue
    return found


def newest(folder: Path, spec: JobSpec) -> tuple[Found | None, list[Difference], list[Event]]:
    """The checkpoint to go on from, what the job has changed since, and what was passed over.

    Raises UnreadableCheckpoint when there are checkpoints and none can be read, and
    IncompatibleCheckpoint when the newest one is another job's.
    """
    unreadable: list[UnreadableCheckpoint] = []
    found = checkpoint.newest(folder, unreadable.append)
    if found is None and unreadable:
        raise unreadable[0]
    told = [
        warning("unreadable_checkpoint", f"{error} An older one is used.") for error in unreadable
    ]
    if found is None:
        return None, [], told
    return found, checkpoint.compatible(found.checkpoint.manifest, spec), told


def restore(session: Session, found: Checkpoint) -> None:
    """Put a session into the state of a checkpoint, of another precision or not.

    The loss scales are taken over where they are of the same kind, within the bounds that hold
    now; others begin anew. Raises IncompatibleCheckpoint.
    """
    variables, scales = _fitted(session, found.manifest, found.arrays)
    session.restore(variables, scales=False)
    session.restore_scales(scales)


def good_arrays(session: Session, found: Checkpoint) -> Arrays | None:
    """The good state in a checkpoint, as `Session.restore` takes it; None when it holds none.

    Asked for right after `restore`. Raises IncompatibleCheckpoint.
    """
    if found.good_arrays is None:
        return None
    variables, scales = _fitted(session, found.manifest, found.good_arrays)
    return variables | scales


def _fitted(
    session: Session, made: Manifest, found: Mapping[str, NDArray[Any]]
) -> tuple[Arrays, Arrays]:
    """The variables, in the dtypes of the session, and the states of its loss scales."""
    variables, scales = session.divided(found)
    before: Mapping[str, Any] = next(iter(made.loss_scales.values()))
    now = session.scale_spec
    is_same = before["mode"] == now["mode"] and before.get("scale") == now.get("scale")
    # A version that counted less of a scale's state has left out the rest.
    kept = session.first_scales | scales if is_same else session.first_scales
    return checkpoint.matched(variables, session.wanted()), kept


def resumed_event(found: Found, differences: list[Difference]) -> Event:
    """That a run goes on, from where, and what the job has changed since."""
    made = found.checkpoint.manifest
    facts = {
        "file": f"{FOLDER}/{found.file.name}",
        "steps": made.step,
        "policy_before": made.policy,
        "changed": [str(difference) for difference in differences],
    }
    return Event(EventType.RESUMED, made.step, facts)
