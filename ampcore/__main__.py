"""`python -m ampcore run job.yaml`: train a job on this machine, without any server.

`python -m ampcore check job.yaml` estimates its cost and checks for known problems beforehand.
`python -m ampcore explain FOLDER STEP` says what a skipped or unusual step was due to.
`python -m ampcore profile job.yaml` shows where the time of some steps goes.
Exit codes: 0 the job succeeded, 1 it failed, 2 the spec is invalid, 130 it was interrupted.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TextIO

import typer

from ampcore.command_context import capture_native_log, interruptible
from ampcore.spec import JobSpec, Problem, SpecValidationError
from ampcore.spec.assignments import with_assignments
from ampcore.spec.dataset_reference import VersionReference
from ampcore.spec.problems import format_value
from ampcore.spec.stored_files import DIGEST_PREFIX
from ampcore.spec.text import plural
from ampcore.spec.yaml_document import parse_yaml
from ampcore.telemetry.json_values import json_safe

FAILED: Final = 1
BAD_SPEC: Final = 2
INTERRUPTED: Final = 130
LOCAL_CODE: Final = f"{DIGEST_PREFIX}{'0' * 64}"
"""In the place of the SHA-256 of code that was not uploaded."""

SpecFile = Annotated[
    str, typer.Argument(metavar="FILE", help="Job spec in YAML or JSON; - reads standard input.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Set one field: precision.policy=float32"),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(help="Root folder of the data paths in the spec; no path may leave it."),
]
DatasetFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset", metavar="NAME=FILE", help="The local file of a dataset that the spec names."
    ),
]

InitFile = Annotated[
    Path | None,
    typer.Option(
        help="Start from the weights in this safetensors file, such as the "
        "weights.safetensors of another run.",
        dir_okay=False,
    ),
]
CodeFolder = Annotated[
    Path | None,
    typer.Option(
        "--code",
        metavar="FOLDER",
        help="Folder with the Python modules of a model of kind bundle. They run as you do: a "
        "worker confines them, this command does not.",
        exists=True,
        file_okay=False,
    ),
]

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def ampcore() -> None:
    """Mixed-precision training that reports every step."""


@app.command()
def run(
    file: SpecFile,
    *,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the trained model and the checkpoints.", file_okay=False),
    ] = None,
    settings: Settings = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    code: CodeFolder = None,
    init: InitFile = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the newest checkpoint in --output.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one line of JSON.")
    ] = False,
) -> None:
    """Train the job in FILE on this machine."""
    if resume and output is None:
        _exit_with("--resume needs --output DIR, the output folder of the run to resume.", BAD_SPEC)
    spec = _load_spec(file, settings, code)
    datasets = _parse_datasets(dataset_files or [])
    with interruptible() as stop, capture_native_log() as stderr:
        summary, model_file = _train(
            spec,
            data_root,
            output,
            datasets,
            code=code,
            init=init,
            resume=resume,
            stop=stop,
            stderr=stderr,
        )
    if as_json:
        typer.echo(json.dumps(json_safe(summary)))
    else:
        from ampcore.console import summary_lines

        typer.echo("\n".join(summary_lines(summary, model_file)))
    if model_file is None:
        typer.echo("The model was not saved; use --output DIR to save it.", err=True)


@app.command()
def check(
    file: SpecFile,
    *,
    settings: Settings = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Also list every layer with its dtypes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check the job in FILE without training: its cost, layer dtypes and known problems."""
    spec, datasets = _load_spec(file, settings), _parse_datasets(dataset_files or [])
    with capture_native_log() as stderr:
        report = _check(spec, data_root, datasets, stderr)
    if as_json:
        typer.echo(json.dumps(json_safe(report)))
    else:
        from ampcore.preflight.report_text import report_lines

        typer.echo("\n".join(report_lines(report, layers=layers)))
    if any(finding["severity"] == "error" for finding in report["findings"]):
        raise typer.Exit(FAILED)


@app.command()
def explain(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Output folder of the run.", file_okay=False),
    ],
    step: Annotated[int, typer.Argument(metavar="STEP", min=0, help="The step, from 0.")],
    *,
    file: Annotated[
        str | None,
        typer.Option("--spec", metavar="FILE", help="Job spec, if the folder has no checkpoint."),
    ] = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    code: CodeFolder = None,
    init: InitFile = None,
    everything: Annotated[bool, typer.Option("--all", help="Show long lists in full.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Explain a step of the run in FOLDER: repeat it exactly, and say what it was due to."""
    from ampcore.api.explanation_text import explanation_lines

    datasets = _parse_datasets(dataset_files or [])
    with capture_native_log() as stderr:
        spec = _load_spec(file, None, code) if file is not None else _spec_of_run(folder, stderr)
        found = _explain(
            spec,
            folder,
            step,
            data_root=data_root,
            datasets=datasets,
            code=code,
            init=init,
            stderr=stderr,
        )
    if as_json:
        typer.echo(json.dumps(found))
    else:
        typer.echo("\n".join(explanation_lines(found, folded=not everything)))


def _spec_of_run(folder: Path, stderr: TextIO) -> JobSpec:
    """The spec in the newest checkpoint of a run; exits if there is none."""
    from ampcore.errors import TrainingError
    from ampcore.explain_command import spec_of_run

    try:
        spec = spec_of_run(folder)
    except (TrainingError, SpecValidationError) as error:
        _exit_with(str(error), BAD_SPEC, stderr)
    if spec is None:
        _exit_with(f"{folder} has no checkpoint; name the job with --spec FILE.", BAD_SPEC, stderr)
    return spec


def _explain(
    spec: JobSpec, folder: Path, step: int, *, stderr: TextIO, **files: Any
) -> dict[str, Any]:
    """The explanation of a step; exits if the run cannot be repeated."""
    from ampcore.errors import TrainingError
    from ampcore.explain_command import explain_run

    try:
        return explain_run(spec, folder, step, stderr=stderr, **files)
    except TrainingError as error:
        _exit_with(f"{error.reason}: {error}", FAILED, stderr)


@app.command()
def profile(
    file: SpecFile,
    *,
    start: Annotated[
        int, typer.Option(min=0, help="The first profiled step; the first two are left out.")
    ] = 10,
    steps: Annotated[int, typer.Option(min=1, max=200, help="How many steps to profile.")] = 10,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the report and the traces.", file_okay=False),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="The longest operations to list.")] = 20,
    settings: Settings = None,
    data_root: DataRoot = None,
    dataset_files: DatasetFiles = None,
    code: CodeFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Train the first steps of the job in FILE, and show where their time goes.

    No model is saved.
    """
    from ampcore.profile.report_text import report_lines

    spec, datasets = _load_spec(file, settings, code), _parse_datasets(dataset_files or [])
    with interruptible() as stop, capture_native_log() as stderr:
        report = _profile(spec, start, steps, output, data_root, datasets, code, stop, stderr)
    if as_json:
        typer.echo(json.dumps(json_safe(report)))
    else:
        typer.echo("\n".join(report_lines(report, rows=rows)))
        if output is not None:
            typer.echo(f"The report and the traces are in {output}.")


def _load_spec(file: str, settings: list[str] | None, code: Path | None = None) -> JobSpec:
    """The spec in a file; exits if it is not valid. With `code` it need not name a bundle."""
    try:
        document = with_assignments(_read_document(file), settings or ())
        if code is not None:
            _name_local_code(document)
        return JobSpec.parse(document)
    except SpecValidationError as error:
        _exit_with(str(error), BAD_SPEC)


def _name_local_code(document: Any) -> None:
    """Name a bundle where the spec names none: code of this machine has not been uploaded.

    Raises SpecValidationError unless the model is a bundle.
    """
    model = document.get("model") if isinstance(document, dict) else None
    kind = model.get("kind") if isinstance(model, dict) else None
    if not isinstance(model, dict) or kind != "bundle":
        expected = "bundle, since a folder with code is given"
        problem = Problem("/model/kind", "code_without_bundle", expected, format_value(kind))
        raise SpecValidationError([problem])
    model.setdefault("bundle", LOCAL_CODE)


def _parse_datasets(assignments: list[str]) -> dict[str, Path]:
    """The file of each dataset in NAME=FILE; exits if one is malformed."""
    files = {}
    for assignment in assignments:
        name, equals, file = assignment.partition("=")
        try:
            reference = str(VersionReference.parse(name))
        except ValueError as error:
            _exit_with(f"--dataset {assignment}: {error}.", BAD_SPEC)
        if not equals or not file:
            _exit_with(f"--dataset {assignment}: expected NAME=FILE, as birds=b.npz.", BAD_SPEC)
        files[reference] = Path(file)
    return files


def _read_document(file: str) -> Any:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return parse_yaml(data.decode("utf-8"))
    except OSError as error:
        problem = Problem("", "no_file", "a file with a job spec", f"{file}: {error.strerror}")
    except UnicodeDecodeError:
        problem = Problem("", "not_yaml", "a text in UTF-8", "other bytes")
    raise SpecValidationError([problem])


def _train(
    spec: JobSpec,
    data_root: Path | None,
    output: Path | None,
    datasets: dict[str, Path],
    *,
    code: Path | None,
    init: Path | None,
    resume: bool,
    stop: threading.Event,
    stderr: TextIO,
) -> tuple[dict[str, Any], str | None]:
    """Train; returns the summary and the path of the model, and exits if the run fails."""
    from ampcore.console import RunProgress
    from ampcore.errors import TrainingError
    from ampcore.train import Trainer

    try:
        with RunProgress(spec.name, stderr) as progress:
            trainer = Trainer(
                spec, data_root, output, resume=resume, datasets=datasets, bundle=code, init=init
            )
            result = trainer.run(progress.block, progress.event, stop.is_set)
    except TrainingError as error:
        _exit_with(f"{error.reason}: {error}", FAILED, stderr)
    except OSError as error:
        _exit_with(f"The model could not be saved: {error}", FAILED, stderr)
    if result.stopped:
        advice = "no model was saved." if output is None else "continue with --resume."
        _exit_with(
            f"Interrupted after {plural(result.steps, 'step')}; {advice}", INTERRUPTED, stderr
        )
    return result.to_json(), str(result.model_file) if result.model_file else None


def _check(
    spec: JobSpec, data_root: Path | None, datasets: dict[str, Path], stderr: TextIO
) -> dict[str, Any]:
    """The preflight report; exits if the job cannot be set up."""
    from ampcore.diagnostics.model_preflight import preflight_on_device
    from ampcore.errors import TrainingError

    try:
        return preflight_on_device(spec, data_root, datasets).to_json()
    except TrainingError as error:
        _exit_with(f"{error.reason}: {error}", FAILED, stderr)


def _profile(  # noqa: PLR0917 - the options of the command
    spec: JobSpec,
    start: int,
    steps: int,
    output: Path | None,
    data_root: Path | None,
    datasets: dict[str, Path],
    code: Path | None,
    stop: threading.Event,
    stderr: TextIO,
) -> dict[str, Any]:
    """The report; exits if there is none."""
    from ampcore.errors import TrainingError
    from ampcore.profile.analysis_process import ProfileFailed
    from ampcore.profile.steps import profile_steps

    try:
        return profile_steps(
            spec,
            start=start,
            steps=steps,
            output=output,
            data_root=data_root,
            datasets=datasets,
            bundle=code,
            should_stop=stop.is_set,
        )
    except TrainingError as error:
        _exit_with(f"{error.reason}: {error}", FAILED, stderr)
    except ProfileFailed as error:
        _exit_with(str(error), INTERRUPTED if stop.is_set() else FAILED, stderr)


def _exit_with(message: str, code: int, stream: TextIO | None = None) -> NoReturn:
    typer.echo(message, file=stream or sys.stderr)
    raise typer.Exit(code)


def main() -> None:
    """Run the command line."""
    app(prog_name="python -m ampcore")


if __name__ == "__main__":
    main()
