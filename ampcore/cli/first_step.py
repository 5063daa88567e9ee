"""`python -m ampcore ranges` and `perturb`: measure the first step of a job, not trained."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from ampcore.cli.context import capture_native_log
from ampcore.cli.exits import BAD_SPEC, exit_with, exits_if_training_fails
from ampcore.cli.local_job import LocalFiles, load_spec, local_files
from ampcore.cli.options import (
    CodeFolder,
    DataRoot,
    DatasetFiles,
    FormatName,
    ReportAsJson,
    Settings,
    SpecFile,
)
from ampspec.jobs import JobSpec
from ampspec.telemetry.json_values import json_safe

if TYPE_CHECKING:
    from ampcore.training.explain.untrained_job import UntrainedJob
    from ampspec.telemetry.ranges.number_formats import NumberFormat


def ranges(
    file: SpecFile,
    *,
    number_format: FormatName = "float16",
    settings: Settings = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    code: CodeFolder = None,
    as_json: ReportAsJson = False,
) -> None:
    """Measure the first step of the job in FILE: variances, and what a number format would do."""
    spec, limits = load_spec(file, settings, code), _parse_format(number_format)
    with _untrained_job(spec, local_files(data_root, dataset_files, code=code)) as job:
        sample = job.ranges()
    from ampcore.cli.first_step_text import range_lines
    from ampspec.telemetry.ranges.range_report import range_report
    from ampspec.telemetry.ranges.unit_scaling import unit_scales

    report, scales = range_report([sample], limits), unit_scales(sample)
    if as_json:
        document = {
            "report": report.to_json() if report else None,
            "unit_scales": [layer.to_json() for layer in scales],
            "sample": sample.to_json(),
        }
        typer.echo(json.dumps(json_safe(document)))
    elif report is not None:
        typer.echo("\n".join(range_lines(report, scales)))


def perturb(
    file: SpecFile,
    *,
    number_format: FormatName = "float16",
    settings: Settings = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    code: CodeFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Round one layer at a time to a number format, and measure the change of the gradients."""
    spec, limits = load_spec(file, settings, code), _parse_format(number_format)
    with _untrained_job(spec, local_files(data_root, dataset_files, code=code)) as job:
        perturbed_layers = job.perturb(limits.name)
    from ampcore.cli.first_step_text import perturbation_lines

    if as_json:
        layers = [layer.to_json() for layer in perturbed_layers]
        document = {"number_format": limits.name, "layers": layers}
        typer.echo(json.dumps(json_safe(document)))
    else:
        typer.echo("\n".join(perturbation_lines(perturbed_layers, limits.name)))


def _parse_format(name: str) -> "NumberFormat":
    """The number format with this name; exits if there is none."""
    from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS

    if name not in NUMBER_FORMATS:
        exit_with(f"--format {name}: expected one of {', '.join(NUMBER_FORMATS)}.", BAD_SPEC)
    return NUMBER_FORMATS[name]


@contextmanager
def _untrained_job(spec: JobSpec, files: LocalFiles) -> Iterator["UntrainedJob"]:
    """The first step of the job, not trained; exits if it cannot be set up or measured."""
    with capture_native_log() as stderr, exits_if_training_fails(stderr):
        from ampcore.training import Trainer

        trainer = Trainer(spec, files.data_root, datasets=files.datasets, bundle=files.code)
        yield trainer.untrained()
