"""A job that explains a step: it repeats the steps before it, and ends with an event."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from ampcore.checkpoint.saver import FOLDER
from ampcore.training.explain.step_explainer import StepExplainer, StepRecord
from ampcore.training.explain.step_replay import ReplayStopped
from ampcore.training.jobs.training_job import training_job
from ampspec.data.stored_split import with_split_seed
from ampspec.jobs import JobSpec
from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.frames import Frame, FrameType


class TelemetrySink(Protocol):
    """Where the steps and the answer go."""

    def block(self, block: StepBlock) -> None:
        """Write a block of steps."""

    def event(self, event: Event) -> None:
        """Write an event."""


def run_explain_job(
    job: Mapping[str, Any], telemetry: TelemetrySink, stop: threading.Event
) -> Frame:
    """Explain the step that a job names; returns the frame that ends the trainer.

    Args:
        job: The job as the worker sends it, with `explain`: the step and what the run recorded.
        telemetry: Gets the repeated steps, and an event with the answer.
        stop: Ends the repetition before its step.

    Raises TrainingError.
    """
    request: Mapping[str, Any] = job["explain"]
    step: int = request["step"]
    training = training_job(
        JobSpec.parse(with_split_seed(job["spec"])),
        data_root=_path(job.get("data_root")),
        datasets={name: Path(file) for name, file in (job.get("datasets") or {}).items()},
        bundle=_path(job.get("bundle")),
        init=_path(job.get("init")),
    )
    record = StepRecord(request.get("values"), request.get("engine"), request.get("examples_per_s"))
    explainer = StepExplainer(training, Path(job["output_dir"]) / FOLDER, step, record)
    cost = explainer.cost
    facts = {"first_step": cost.first_step, "total_steps": step + 1, "policy": None}
    telemetry.event(Event(EventType.STARTED, None, facts))
    should_stop: Callable[[], bool] = stop.is_set
    try:
        explanation = explainer.run(telemetry.block, should_stop)
    except ReplayStopped:
        return Frame(FrameType.STOPPED)
    telemetry.event(Event(EventType.EXPLANATION, step, explanation))
    return Frame(FrameType.SUCCEEDED, {"summary": {"policy": explanation["policy"]}})


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
