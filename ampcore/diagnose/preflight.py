"""The preflight of a job whose models are there: what the trainer tells before its first step."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ampcore import data, models
from ampcore.diagnose import hardware
from ampcore.diagnose.inspect import inspected
from ampcore.models.task import Task
from ampcore.precision import LayerPolicies, layer_policies
from ampcore.preflight import Figures, Report, Table, Unknown, blueprint, judged
from ampcore.preflight.case import Case
from ampcore.preflight.data import Shapes, shapes, total_steps
from ampcore.preflight.text import scaled, size_text
from ampcore.series import Event, EventType
from ampcore.spec import JobSpec
from ampcore.spec.devices import DeviceFacts


def preflight_events(
    task: Task,
    spec: JobSpec,
    device: DeviceFacts,
    policies: LayerPolicies,
    steps: int | None = None,
) -> Iterator[Event]:
    """The figures of a job as one event, then an event for each finding.

    `steps`: the length of the run, where the spec alone does not tell. The data of every event
    has `code`, `severity`, `pointer`, `message` and `data`, in the first one the figures.
    """
    report = examined(task, spec, device, policies, steps)
    if report.figures is not None:
        yield _figures_event(report.figures)
    for finding in report.findings:
        yield Event(EventType.PREFLIGHT, None, finding.to_json())


def examined(
    task: Task,
    spec: JobSpec,
    device: DeviceFacts,
    policies: LayerPolicies,
    steps: int | None = None,
) -> Report:
    """The findings and figures of a job, from its real layers."""
    tables = tuple(_pointed(inspected(task, policies), spec, task))
    length = total_steps(spec.data, spec.train) if steps is None else steps
    return judged(Case(spec, policies.name, tables, (device,), machines=1, total_steps=length))


def rehearsed(spec: JobSpec, data_root: Path | None = None) -> Report:
    """The findings and figures of a job on this machine, from its real data and models.

    Raises TrainingError when they cannot be loaded and built.
    """
    device = hardware.facts(hardware.select(spec.runtime.device))
    dataset = data.load(
        spec.data, seed=spec.train.seed, data_root=data_root, accumulate=spec.train.accumulate
    )
    policies = layer_policies(spec.precision, device)
    task = models.build(spec.model, dataset.signature, policies)
    step_examples = spec.data.batch_size * spec.train.accumulate
    steps = spec.train.steps or spec.train.epochs * dataset.steps_per_epoch(step_examples)
    return examined(task, spec, device, policies, steps)


def _figures_event(figures: Figures) -> Event:
    memory = figures.memory[figures.policy].total
    message = (
        f"{figures.parameters:,} parameters; {scaled(figures.flops_per_step)}FLOPs a step, "
        f"{figures.share_in_16_bit:.1%} of them in 16 bits; about {size_text(memory)} of memory."
    )
    facts = {"code": "figures", "severity": "info", "pointer": "", "message": message}
    return Event(EventType.PREFLIGHT, None, {**facts, "data": figures.to_json()})


def _pointed(tables: tuple[Table, ...], spec: JobSpec, task: Task) -> Iterator[Table]:
    """The tables with the fields of the spec that decide the layers' dimensions."""
    told = shapes(spec.data)
    if isinstance(told, Unknown):
        model = task.networks[-1].model
        told = Shapes(tuple(model.input_shape[1:]), model.output_shape[-1])
    drawn = blueprint(spec, told)
    known = {} if isinstance(drawn, Unknown) else {table.network: table for table in drawn}
    for table in tables:
        drawing = known[table.network].layers if table.network in known else ()
        dimensions = {layer.path: layer.dimensions for layer in drawing}
        layers = (
            replace(layer, dimensions=dimensions.get(layer.path, layer.dimensions))
            for layer in table.layers
        )
        yield replace(table, layers=tuple(layers))
