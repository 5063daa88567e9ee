"""Prints studies, their answers and their estimates."""

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.output.tables import ago, print_fields, print_table
from ampspec.api.studies import BisectAnswer, CapacityAnswer, PrecisionAnswer, SearchAnswer
from ampspec.documents.text import plural
from ampspec.precision.precision import ROLES

if TYPE_CHECKING:
    from ampclient._display.terminal_table import Row
    from ampspec.api.studies import Estimate, PolicyAnswer, SearchRun, Study, StudyFields


def print_studies(studies: "Iterable[StudyFields]") -> None:
    """One row for each study."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("ID"),
        TableColumn("KIND"),
        TableColumn("NAME", min_width=12, wraps=True),
        TableColumn("STATE"),
        TableColumn("JOBS", align_right=True),
        TableColumn("CREATED", align_right=True),
    )
    rows = [
        (
            study.id,
            formats.printable(study.kind),
            formats.printable(study.name),
            study.state,
            f"{study.jobs_ended}/{study.jobs_planned}",
            ago(study.created_at),
        )
        for study in studies
    ]
    print_table(columns, rows)


def print_study(study: "Study") -> None:
    """A study: its answer, or its jobs while there is none."""
    facts = [("id", study.id), ("name", study.name), ("kind", study.kind), ("state", study.state)]
    facts += [("message", study.message)] if study.message else []
    print_fields([*facts, ("jobs", f"{study.jobs_ended} of {study.jobs_planned} ended")])
    typer.echo()
    match study.answer:
        case PrecisionAnswer():
            _print_precision(study.answer)
        case CapacityAnswer():
            _print_capacity(study.answer)
        case BisectAnswer():
            _print_bisect(study.answer)
        case SearchAnswer():
            _print_search(study.answer)
        case _:
            _print_jobs(study)


LATER: Final = "known once a job with this model and data has succeeded"


def cost_line(estimate: "Estimate") -> str:
    """The cost of a study in a line."""
    at_least = "At least " if estimate.more_jobs_possible else ""
    steps = "" if estimate.steps is None else f", {plural(estimate.steps, 'step')}"
    time = f"how long they train is {LATER}"
    if estimate.train_s is not None:
        time = f"they train for about {formats.duration(estimate.train_s)}"
    return f"{at_least}{plural(estimate.jobs, 'job')}{steps}; {time}."


def print_estimate(estimate: "Estimate") -> None:
    """The cost of a study that does not exist yet."""
    more = _more_than(estimate.jobs, estimate.jobs_at_most, " or more, as the results decide")
    time = formats.duration(estimate.train_s) if estimate.train_s is not None else LATER
    steps = LATER
    if estimate.steps is not None:
        steps = f"{estimate.steps:,}" + _more_than(estimate.steps, estimate.steps_at_most, "")
    facts = [("jobs", f"{estimate.jobs}{more}"), ("steps", steps), ("training time", time)]
    facts += [("policies", ", ".join(estimate.policies))] if estimate.policies else []
    print_fields(facts)
    typer.echo("Nothing was created.", err=True)


def _more_than(minimum: int, maximum: int | None, unknown: str) -> str:
    if maximum is None:
        return unknown
    return f", at most {maximum:,}" if maximum > minimum else ""


def _print_precision(answer: PrecisionAnswer) -> None:
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("POLICY"),
        TableColumn("VERDICT"),
        TableColumn("DIFFERENCE", align_right=True),
        TableColumn("INTERVAL", align_right=True),
        TableColumn("SPEED-UP", align_right=True),
        TableColumn("MEMORY", align_right=True),
        TableColumn("LARGEST BATCH", align_right=True),
        TableColumn("SKIPPED", align_right=True),
    )
    print_table(columns, [_precision_row(policy) for policy in answer.policies])
    typer.echo()
    for policy in answer.policies:
        typer.echo(f"{policy.policy}: {formats.printable(policy.explanation)}")
        typer.echo(f"  jobs: {' '.join(policy.jobs)}")
    typer.echo(f"\n{formats.printable(answer.summary)}")
    chosen = next(
        (policy for policy in answer.policies if policy.policy == answer.recommended), None
    )
    if chosen is not None:
        typer.echo("\nIn the spec:")
        for name, section in chosen.write.items():
            typer.echo(f"  {formats.printable(name)}: {formats.printable(json.dumps(section))}")


def _precision_row(policy: "PolicyAnswer") -> "Row":
    interval = UNKNOWN
    if policy.interval is not None:
        interval = "[" + ", ".join(formats.signed(bound) for bound in policy.interval) + "]"
    return (
        policy.policy,
        policy.verdict,
        formats.signed(policy.difference),
        interval,
        formats.factor(policy.speedup),
        formats.size(policy.memory),
        UNKNOWN
        if policy.largest_batch is None
        else f"{'' if policy.largest_batch_is_measured else '≈ '}{policy.largest_batch:,}",
        formats.percent(policy.skipped_share),
    )


def _print_bisect(answer: BisectAnswer) -> None:
    from ampclient._display.terminal_table import TableColumn

    if answer.layers:
        columns = (
            TableColumn("LAYER", min_width=12, wraps=True),
            TableColumn("KIND"),
            TableColumn("IN FLOAT32", wraps=True),
            TableColumn("EVIDENCE", min_width=20, wraps=True),
            TableColumn("JOB"),
        )
        rows = [
            (
                formats.printable(layer.path),
                formats.printable(layer.kind),
                ", ".join(layer.roles) if len(layer.roles) < len(ROLES) else "whole layer",
                formats.printable(layer.explanation),
                layer.job,
            )
            for layer in answer.layers
        ]
        print_table(columns, rows)
        typer.echo(f"\nprecision.overrides: {json.dumps(answer.overrides)}\n")
    typer.echo(formats.printable(answer.summary))


def _print_capacity(answer: CapacityAnswer) -> None:
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("POLICY"),
        TableColumn("BATCH", align_right=True),
        TableColumn("FITS"),
        TableColumn("EXAMPLES/S", align_right=True),
        TableColumn("PEAK MEMORY", align_right=True),
        TableColumn("JOB"),
    )
    rows = [
        (
            policy.policy,
            f"{batch.batch_size:,}",
            "yes" if batch.fits else "no",
            formats.rate(batch.examples_per_s),
            formats.size(batch.peak_memory_bytes),
            batch.job,
        )
        for policy in answer.policies
        for batch in policy.batches
    ]
    print_table(columns, rows)
    typer.echo()
    for policy in answer.policies:
        typer.echo(f"{policy.policy}: {formats.printable(policy.explanation)}")
    typer.echo(f"\n{formats.printable(answer.summary)}")


def _print_search(answer: SearchAnswer) -> None:
    from ampclient._display.terminal_table import TableColumn

    paths = [parameter.path for parameter in answer.parameters]
    columns = (
        TableColumn("RUN", align_right=True),
        *(TableColumn(formats.printable(path), align_right=True) for path in paths),
        TableColumn(formats.printable(answer.metric), align_right=True),
        TableColumn("STEPS", align_right=True),
        TableColumn("STATE"),
        TableColumn("JOB"),
    )
    rows = [
        (
            f"{run.number}",
            *(formats.printable(json.dumps(run.values[path])) for path in paths),
            formats.number(run.value),
            formats.integer(run.steps),
            run.state,
            run.jobs[-1] if run.jobs else UNKNOWN,
        )
        for run in _best_first(answer)
    ]
    print_table(columns, rows)
    importances = [
        f"{parameter.path} {formats.percent(parameter.importance)}"
        for parameter in answer.parameters
        if parameter.importance is not None
    ]
    if importances:
        typer.echo(f"\nimportance: {formats.printable(', '.join(importances))}")
    values = answer.runs[answer.best - 1].values
    assignments = " ".join(f"--set {path}={json.dumps(value)}" for path, value in values.items())
    typer.echo(f"\nbest: {formats.printable(assignments)}")
    typer.echo(f"\n{formats.printable(answer.summary)}")


def _best_first(answer: SearchAnswer) -> "Sequence[SearchRun]":
    """Those that trained longest first, since a metric says little after few steps."""
    sign = -1.0 if answer.higher_is_better else 1.0

    def rank(run: "SearchRun") -> tuple[bool, int, float]:
        return run.value is None, -(run.steps or 0), sign * (run.value or 0.0)

    return sorted(answer.runs, key=rank)


def _print_jobs(study: "Study") -> None:
    from ampclient._display.terminal_table import TableColumn

    columns = (TableColumn("KEY"), TableColumn("JOB"), TableColumn("STATE"))
    print_table(
        columns, [(formats.printable(job.key), job.job or UNKNOWN, job.state) for job in study.jobs]
    )
