"""The preflight of a job whose models are built: the events before the first step."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ampcore import data, models
from ampcore.diagnostics import hardware
from ampcore.diagnostics.model_layers import tables_from_keras
from ampcore.diagnostics.ranges.float8_layers import float8_layers
from ampcore.models.task import Task
from ampcore.precision import LayerPolicies, layer_policies
from ampspec.jobs import JobSpec
from ampspec.networks import DataShape
from ampspec.precision.devices import DeviceInfo
from ampspec.preflight import (
    Figures,
    LayerTable,
    NotYetKnown,
    PreflightReport,
    run_checks,
    tables_from_spec,
)
from ampspec.preflight.case import Case
from ampspec.preflight.data import data_shape
from ampspec.preflight.report_text import format_bytes, format_count
from ampspec.telemetry import Event, EventType
from ampspec.training.run import RunSpec


def preflight_events(
    task: Task,
    spec: RunSpec,
    device: DeviceInfo,
    policies: LayerPolicies,
    steps: int,
) -> Iterator[Event]:
    """The figures of a job as one event, then one event for each finding.

    `steps` is the length of the run. The data of every event has `code`, `severity`, `pointer`,
    `message` and `data`; the first event has the figures as `data`.
    """
    report = preflight_task(task, spec, device, policies, steps)
    if report.figures is not None:
        yield _figures_event(report.figures)
    for finding in report.findings:
        yield Event(EventType.PREFLIGHT, None, finding.to_json())


def preflight_task(
    task: Task,
    spec: RunSpec,
    device: DeviceInfo,
    policies: LayerPolicies,
    steps: int,
) -> PreflightReport:
    """The findings and figures of a job, from its actual layers.

    Without figures for a model that does not tell how its layers are connected.
    """
    tables = tables_from_keras(task, policies)
    if tables is not None and isinstance(spec, JobSpec):
        tables = tuple(_with_spec_pointers(tables, spec, task))
    case = Case(spec, policies.name, tables, (device,), machines=1, total_steps=steps)
    report = run_checks(case)
    return replace(report, findings=(*report.findings, *float8_layers(policies)))


def preflight_on_device(
    spec: JobSpec,
    data_root: Path | None = None,
    datasets: Mapping[str, Path] | None = None,
) -> PreflightReport:
    """The findings and figures of a job on this machine, from its actual data and models.

    `datasets` has the local file of each dataset that the spec may name.

    Raises TrainingError when they cannot be loaded and built.
    """
    device = hardware.device_info(hardware.select(spec.runtime.device))
    dataset = data.load(
        spec.data,
        data_root=data_root,
        accumulate=spec.train.accumulate,
        task=spec.task,
        dataset_files=datasets,
    )
    policies = layer_policies(spec.precision, device)
    task = models.build(spec.model, dataset.require_signature(), policies, spec.task)
    step_examples = spec.data.batch_size * spec.train.accumulate
    steps = spec.train.steps or spec.train.epochs * dataset.steps_per_epoch(step_examples)
    return preflight_task(task, spec, device, policies, steps)


def _figures_event(figures: Figures) -> Event:
    memory = figures.memory[figures.policy].total
    share = figures.share_in_8_bit
    float8 = f" or fewer, {share:.1%} in float8" if share else ""
    message = (
        f"{figures.parameters:,} parameters; {format_count(figures.flops_per_step)}FLOPs per step, "
        f"{figures.share_in_16_bit:.1%} of them in 16 bits{float8}; about {format_bytes(memory)} "
        "of memory."
    )
    finding = {"code": "figures", "severity": "info", "pointer": "", "message": message}
    return Event(EventType.PREFLIGHT, None, {**finding, "data": figures.to_json()})


def _with_spec_pointers(
    tables: tuple[LayerTable, ...], spec: JobSpec, task: Task
) -> Iterator[LayerTable]:
    """The tables, with pointers to the fields of the spec that decide the dimensions."""
    shape = data_shape(spec.data)
    if isinstance(shape, NotYetKnown):
        model = task.networks[-1].model
        classes = model.output_shape[-1]
        # Sequences are labelled with keys of the same vocabulary.
        shape = DataShape(tuple(model.input_shape[1:]), classes, vocabulary=classes)
    predicted = tables_from_spec(spec, shape)
    predicted_tables = () if isinstance(predicted, NotYetKnown) else predicted
    layers_by_network = {table.network: table.layers for table in predicted_tables}
    for table in tables:
        predicted_layers = layers_by_network.get(table.network, ())
        dimensions = {layer.path: layer.dimensions for layer in predicted_layers}
        layers = (
            replace(layer, dimensions=dimensions.get(layer.path, layer.dimensions))
            for layer in table.layers
        )
        yield replace(table, layers=tuple(layers))
