"""Profiles the first steps of a job on this machine, without training it to its end."""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ampcore.profile.analysis_process import ProfileFailed
from ampcore.profile.recorder import WARMUP_STEPS
from ampcore.training import Trainer
from ampspec.jobs import JobSpec
from ampspec.telemetry.events import NO_PROFILE, Event, EventType
from ampspec.training.training import Profile


def profile_steps(
    spec: JobSpec,
    *,
    start: int = 10,
    steps: int = 10,
    output: Path | None = None,
    data_root: Path | None = None,
    datasets: Mapping[str, Path] | None = None,
    bundle: Path | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Train the first steps of a job and return the report of a profile of some of them.

    Args:
        spec: The job; its own `runtime.profile` and length of training do not count.
        start: The first profiled step; the first two of a run are left out.
        steps: How many steps to profile.
        output: The folder for the report and the traces; None: they are not kept.
        data_root: As of `Trainer`.
        datasets: As of `Trainer`.
        bundle: As of `Trainer`.
        should_stop: Called between blocks; when it returns true, the profile ends early.

    Returns:
        The report, as docs/reference/profile.md describes it.

    Raises:
        TrainingError: The training failed.
        ProfileFailed: There is no report, and why.
    """
    short = _shortened(spec, max(start, WARMUP_STEPS), steps)
    events: list[Event] = []
    with tempfile.TemporaryDirectory(prefix="ampcore-profile-") as folder:
        trainer = Trainer(short, data_root, folder, datasets=datasets, bundle=bundle)
        trainer.run(None, events.append, should_stop)
        for event in events:
            if event.type is EventType.PROFILE:
                return _take_report(Path(folder), event, output)
    messages = [event.data["message"] for event in events if event.data.get("code") in NO_PROFILE]
    raise ProfileFailed(messages[0] if messages else "The run was stopped before the profile.")


def _shortened(spec: JobSpec, start: int, steps: int) -> JobSpec:
    """The same job up to the end of its profile, without checkpoints in between."""
    train = {"steps": start + steps, "checkpoint_every_s": None, "keep": "last"}
    return spec.model_copy(
        update={
            "train": spec.train.model_copy(update={**train, "early_stopping": None}),
            "runtime": spec.runtime.model_copy(
                update={"profile": Profile(start=start, steps=steps)}
            ),
        }
    )


def _take_report(folder: Path, event: Event, output: Path | None) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / event.data["file"]).read_bytes())
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        for name in event.data["files"]:
            shutil.copy2(folder / name, output / Path(name).name)
    return report
