"""Starts a run: from the beginning or from a checkpoint, with the engine that it trains with."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from ampcore.checkpoint import Checkpoint, FieldChange
from ampcore.checkpoint.saver import CheckpointSaver
from ampcore.data.summary import data_summary
from ampcore.diagnostics.preflight.category_columns import category_findings
from ampcore.diagnostics.preflight.data_findings import data_findings
from ampcore.diagnostics.preflight.input_range import input_findings
from ampcore.diagnostics.preflight.model_preflight import preflight_events
from ampcore.distributed import Communicator
from ampcore.profile.recorder import ProfileRecorder
from ampcore.training.callback_buffer import CallbackBuffer
from ampcore.training.context import RunContext
from ampcore.training.ranks.agreement import check_equal_settings, share_arrays, share_checkpoint
from ampcore.training.ranks.joint_saver import JointSaver, Saver
from ampcore.training.run.counters import RunCounters
from ampcore.training.run.engine_autotune import EngineDecision, choose_engine
from ampcore.training.run.resume import newest, resumed_event
from ampcore.training.run.run import Run
from ampcore.training.state.model_weights import parameters
from ampcore.training.step.loop import EngineName, engine_name
from ampspec.telemetry import Event, EventType
from ampspec.telemetry.activities import Activity

PRECISION_FIELDS: Final = ("precision", "loss_scale")
"""The sections of a spec that determine the precision of a job."""

SEVERAL_RANKS: Final = (
    "several ranks: inside the program of xla_loop they cannot communicate, and xla_step is used "
    "only if runtime.engine names it"
)
"""Why no engine is measured."""

MAX_CLASS_NAMES: Final = 100
"""In an event; signature.json has all of them."""

NO_CHECKPOINT: Final[tuple[None, list[Any], list[Any]]] = (None, [], [])
"""The values without a checkpoint to resume from."""


def start_or_resume(
    context: RunContext,
    folder: Path | None,
    callback_buffer: CallbackBuffer,
    recorder: ProfileRecorder,
    *,
    resume: bool,
) -> Run:
    """Create the run, and emit what is known before its first step.

    Args:
        context: The job, its examples and its device.
        folder: The folder of its checkpoints; None: it writes none.
        callback_buffer: Gets the events.
        recorder: Records the profiles of the run.
        resume: Resume from the newest checkpoint in the folder; from the beginning without one.

    Raises:
        TrainingError: The checkpoints cannot be read, or are those of another job.
    """
    spec = context.job.spec
    stored, differences, warnings = NO_CHECKPOINT
    if folder and resume:
        stored, differences, warnings = newest(folder, spec, mapped=context.job.shards_tables)
    saved = share_checkpoint(context.communicator, stored.checkpoint if stored else None)
    saver: Saver = CheckpointSaver(folder, spec.train.checkpoint_every_s)
    if context.job.shards_tables:
        saver = JointSaver(saver, context.communicator)
    float32 = resumes_in_float32(context.communicator, saved, differences)
    run = Run(context, saver, callback_buffer, float32=float32, recorder=recorder)
    loaded: Sequence[Event] = ()
    if saved:
        saved = share_arrays(run.runner, saved)
        run.restore(saved)
    else:
        loaded = run.start()
    check_equal_settings(context.communicator, context)
    callback_buffer.event(_started_event(context, run))
    for event in (*_preflight(context, run), *warnings, *loaded):
        callback_buffer.event(event)
    if stored:
        callback_buffer.event(resumed_event(stored, differences))
    if not run.is_done:
        callback_buffer.activity(Activity.COMPILING)
        decision = _use_engine(run, spec.runtime.engine, saved, context)
        callback_buffer.event(decision.event(run.totals.steps))
    return run


def resumes_in_float32(
    communicator: Communicator, saved: Checkpoint | None, differences: Sequence[FieldChange]
) -> bool:
    """Whether a run continues in float32, to which the guard had changed it.

    A new precision in the spec replaces that. Rank 0 decides for all ranks: it alone has compared
    its spec with that of the checkpoint.
    """
    precision_changed = any(
        difference.field.startswith(PRECISION_FIELDS) for difference in differences
    )
    in_float32 = saved is not None and bool(RunCounters.from_manifest(saved.manifest).in_float32)
    return bool(communicator.broadcast_object(in_float32 and not precision_changed))


def _use_engine(
    run: Run, engine: EngineName | Literal["auto"], saved: Checkpoint | None, context: RunContext
) -> EngineDecision:
    """Use the engine that the spec names, else that of the checkpoint, else the fastest."""
    runner, step = run.runner, run.totals.steps
    if engine != "auto":
        runner.use_engine(engine, step)
        return EngineDecision(engine, "set by runtime.engine")
    if context.communicator.size > 1:
        runner.use_engine("graph", step)
        return EngineDecision("graph", SEVERAL_RANKS)
    device = context.device.kind
    manifest = saved.manifest if saved else None
    # On another device or in another precision the measurements are not valid.
    if manifest and (manifest.device, manifest.policy) == (device, runner.policies.name):
        pinned = engine_name(manifest.engine)
        runner.use_engine(pinned, step)
        return EngineDecision(pinned, "same engine as the checkpoint")
    return choose_engine(runner, step, run.steps_left, device)


def _preflight(context: RunContext, run: Run) -> Iterator[Event]:
    runner, steps = run.runner, context.plan.total_steps
    spec, policies = context.job.spec, runner.policies
    yield from preflight_events(runner.task, spec, context.device, policies, steps)
    findings = [
        *category_findings(context.dataset),
        *data_findings(context.dataset),
        *input_findings(context.input_statistics, policies),
    ]
    for finding in findings:
        yield Event(EventType.PREFLIGHT, None, finding.to_json())


def _started_event(context: RunContext, run: Run) -> Event:
    runner = run.runner
    examples = runner.train_step.shard.total * context.job.spec.data.batch_size
    facts: dict[str, Any] = {
        "total_steps": context.plan.total_steps,
        "steps_per_epoch": context.plan.steps_per_epoch,
        "first_step": run.totals.steps,
        "parameters": parameters(runner.task),
        "device": context.device.kind,
        "policy": runner.policies.name,
        "policy_set_by": "model" if runner.policies.keeps_dtypes else "spec",
        "tf32": context.job.spec.precision.tf32 and context.device.has_tf32,
        "dropped_examples": context.dataset.dropped_examples(examples),
        "global_batch_size": examples,
        "ranks": context.communicator.size,
        "data": data_summary(context.dataset).to_json(),
    }
    if classes := _class_names(context):
        facts["classes"] = classes
    return Event(EventType.STARTED, None, facts)


def _class_names(context: RunContext) -> dict[str, list[str]]:
    """The names of the classes by output, where the data has any."""
    signature = context.dataset.signature
    targets = signature.targets if signature is not None else {}
    return {
        output: list(target.names[:MAX_CLASS_NAMES])
        for output, target in targets.items()
        if target.names is not None
    }
