"""Prints jobs as a table, one job as fields, and a validated spec as paragraphs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.output.tables import (
    ago,
    duration_between,
    print_fields,
    print_table,
    printable_in,
)
from ampspec.documents.text import plural
from ampspec.jobs.states import Source

VALIDATION_LOSS: Final = "val_loss"

if TYPE_CHECKING:
    from ampclient._job.view import JobView
    from ampspec.api.data_summary import DataSummary
    from ampspec.api.job.allocations import Allocation
    from ampspec.api.job.attempts import Rank
    from ampspec.api.job.initial_weights import LoadedWeights
    from ampspec.api.job.jobs import FoldedStudy, Summary
    from ampspec.api.job.validation import Validation


TRACKED: Final = "elsewhere: a program sends its steps (tracked)"


def print_jobs(
    jobs: Sequence["JobView"],
    names: Mapping[str, str] | None = None,
    metrics: Sequence[str] = (),
) -> None:
    """One row per job, with these names by id; with a project column if there are several.

    Without `metrics`, the validation loss is shown if a job has one.
    """
    from ampclient._display.terminal_table import Cell, TableColumn
    from ampclient.progress.live_table import styled_state

    several = len({job.project for job in jobs}) > 1
    in_trash = any(job.purge_at is not None for job in jobs)
    has_loss = any(VALIDATION_LOSS in (job.metrics or {}) for job in jobs)
    shown = metrics or ([VALIDATION_LOSS] if has_loss else [])
    columns = (
        TableColumn("ID"),
        TableColumn("NAME", min_width=12),
        *([TableColumn("PROJECT", drop_order=2)] if several else []),
        TableColumn("STATE"),
        TableColumn("POLICY", drop_order=1),
        TableColumn("STEP", align_right=True),
        TableColumn("LOSS", align_right=True),
        *(TableColumn(formats.printable(name), align_right=True) for name in shown),
        TableColumn("SKIPPED", align_right=True, drop_order=4),
        TableColumn("CREATED", align_right=True, drop_order=3),
        *([TableColumn("DELETED FOR GOOD")] if in_trash else []),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            job.id if job.study is None else job.study.id,
            formats.printable((names or {}).get(job.id, _name(job))),
            *([job.project] if several else []),
            styled_state(f"{job.state_text}, {job.note}" if job.note else job.state_text)
            if job.study is None
            else _study_states(job.study),
            formats.printable(job.policy_text),
            formats.steps(job.step, job.total_steps),
            formats.number(job.latest.loss if job.latest else None),
            *(formats.metric(name, (job.metrics or {}).get(name)) for name in shown),
            str(job.skipped),
            ago(job.created_at),
            *([formats.moment(job.purge_at) if job.purge_at else UNKNOWN] if in_trash else []),
        )
        for job in jobs
    ]
    print_table(columns, rows)


def _name(job: "JobView") -> str:
    if job.study is None:
        return job.name
    return f"{job.study.name} (study: {job.study.kind}, {plural(job.study.jobs, 'job')})"


def _study_states(study: "FoldedStudy") -> str:
    """`2 running, 5 succeeded`: the states of the jobs of a study."""
    return ", ".join(f"{count} {state}" for state, count in sorted(study.states.items()))


def print_job(
    job: "JobView",
    loaded: "LoadedWeights | None" = None,
    ranks: "Sequence[Rank] | None" = None,
    data: "DataSummary | None" = None,
    allocation: "Allocation | None" = None,
    *,
    warnings: Sequence[str] = (),
) -> None:
    """Print one job, a line per field.

    Args:
        job: The job.
        loaded: Which weights it has loaded.
        ranks: Its ranks, if it has several.
        data: What it trains on.
        allocation: What a batch system has given it, or is asked for.
        warnings: What is wrong with its result.
    """
    facts = [("id", job.id), ("name", job.name), ("state", _state(job))]
    if job.waiting:
        facts.append(("waiting", job.waiting))
    facts += _allocation(job, allocation)
    if job.unreadable:
        facts.append(("unreadable", f"{', '.join(job.unreadable)}; see the server's log"))
    facts += [*_origin(job), *_weights(job, loaded), *_progress(job)]
    if data is not None:
        facts += [
            (formats.printable(title), formats.printable(text)) for title, text in data.lines()
        ]
    facts += [*_ranks(job, ranks or ()), *_outcome(job), *_times(job)]
    if job.trace_id is not None:
        facts.append(("trace", job.trace_id))
    facts += [("warning", " ".join(warning.split())) for warning in warnings]
    print_fields(facts)


def print_validated(validated: "Validation", *, layers: bool) -> None:
    """Print the estimates for a job, and a paragraph per finding."""
    from ampspec.preflight.report_text import report_lines

    report = validated.to_json()
    for line in report_lines(printable_in(report), layers=layers):
        typer.echo(line)


def _allocation(job: "JobView", allocation: "Allocation | None") -> list[tuple[str, str]]:
    """The allocation, unless the reason why the job waits names it already."""
    if allocation is None or f"{allocation.external_id} is " in (job.waiting or ""):
        return []
    return [("allocation", formats.printable(allocation.sentence))]


def _state(job: "JobView") -> str:
    reason = f" ({job.reason})" if job.reason else ""
    message = f": {job.message}" if job.message else ""
    return f"{job.state_text}{reason}{message}"


def _origin(job: "JobView") -> list[tuple[str, str]]:
    facts = [
        ("model", job.model),
        ("policy", job.policy_text),
        ("labels", " ".join(f"{key}={value}" for key, value in job.labels.items()) or UNKNOWN),
        ("project", job.project),
        ("runs", TRACKED)
        if job.source == Source.TRACKED
        else ("queue", f"{job.queue}, priority {job.priority}"),
    ]
    origins = (
        ("submitted by", job.created_by),
        ("cloned from", job.cloned_from),
        ("extends", job.extends),
        ("explains", job.explains and f"step {job.explain_step} of {job.explains}"),
    )
    return facts + [(name, value) for name, value in origins if value]


def _weights(job: "JobView", loaded: "LoadedWeights | None") -> list[tuple[str, str]]:
    """The source of the job's initial weights, and what was taken from it."""
    init = (job.spec or {}).get("init")
    if not init:
        return []
    source = f"job {init['job']}" if init.get("job") else str(init.get("weights"))
    facts = [("starts from", source)]
    return [*facts, ("weights", formats.printable(loaded.sentence))] if loaded else facts


def _progress(job: "JobView") -> list[tuple[str, str]]:
    tried = f"{job.attempt}"
    if job.failures:
        tried += f" ({job.failures} of at most {job.max_attempts} failed)"
    return [
        ("attempt", tried),
        ("step", formats.steps(job.step, job.total_steps)),
        *_skipped_and_repeated(job),
    ]


def _ranks(job: "JobView", ranks: "Sequence[Rank]") -> list[tuple[str, str]]:
    """The number of ranks, and a line for each of them."""
    if job.ranks == 1:
        return []
    count = str(job.ranks)
    if (job.spec or {}).get("runtime", {}).get("elastic"):
        count = f"{len(ranks)} of at most {job.ranks}" if ranks else f"at most {job.ranks}"
    lines = [
        (f"rank {rank.rank}", f"{rank.state} on {rank.worker_id}, {rank.device or UNKNOWN}")
        for rank in ranks
    ]
    return [("ranks", count), *((name, formats.printable(text)) for name, text in lines)]


def _skipped_and_repeated(job: "JobView") -> list[tuple[str, str]]:
    """Skipped and repeated steps, and the time that they took."""
    summary = job.summary
    if summary is None or not (summary.skipped or summary.repeated_steps):
        return [("skipped", str(job.skipped))]
    share = formats.percent(summary.skipped_share)
    facts = [("skipped", f"{job.skipped} ({share}), {formats.duration(summary.skipped_s)}")]
    if summary.repeated_steps:
        seconds = formats.duration(summary.repeated_s)
        facts.append(("repeated", f"{summary.repeated_steps} steps, {seconds}"))
    return facts


def _outcome(job: "JobView") -> list[tuple[str, str]]:
    facts, summary = [], job.summary
    if summary is not None and summary.final_loss is not None:
        facts += [
            ("loss", _with_best(summary.final_loss, summary.best_loss)),
            ("loss scale", _with_health(summary.final_loss_scale, summary.scale_health)),
        ]
    elif job.latest is not None:
        best, health = (summary.best_loss, summary.scale_health) if summary else (None, None)
        facts += [
            ("loss", _with_best(job.latest.loss, best)),
            ("loss scale", _with_health(job.latest.loss_scale, health)),
        ]
    facts += _metrics(job)
    if summary is not None:
        facts += _best(summary)
    facts.append(("examples/s", formats.rate(job.examples_per_s)))
    if summary is not None and summary.model_file:
        path = f"attempt-{job.attempt}/{summary.model_file}"
        facts.append(("model file", f"{path} (ampctl job download {job.id} {path})"))
    if summary is not None and summary.best_model_file:
        facts.append(("best model", f"attempt-{job.attempt}/{summary.best_model_file}"))
    return facts


def _best(summary: "Summary") -> list[tuple[str, str]]:
    """The best evaluation, and where the job stopped early."""
    facts = []
    if (best := summary.best) is not None:
        value = formats.metric(best.metric, best.value)
        facts.append(("best", f"{formats.metric_label(best.metric)} {value} in epoch {best.epoch}"))
    if (stop := summary.stopped_early) is not None:
        label = formats.metric_label(stop.metric)
        facts.append(
            ("stopped early", f"after epoch {stop.epoch}, because {label} no longer improved")
        )
    return facts


def _metrics(job: "JobView") -> list[tuple[str, str]]:
    """The metrics of the last evaluation; servers before 0.6 send only those of the result."""
    metrics = job.metrics
    if metrics is None and job.summary is not None:
        values = {"val_loss": job.summary.val_loss, "val_accuracy": job.summary.val_accuracy}
        metrics = {name: value for name, value in values.items() if value is not None}
    return [(formats.metric_label(n), formats.metric(n, v)) for n, v in (metrics or {}).items()]


def _with_best(loss: float | None, best: float | None) -> str:
    suffix = f" (best {formats.number(best)})" if best is not None else ""
    return f"{formats.number(loss)}{suffix}"


def _with_health(scale: float | None, health: str | None) -> str:
    if scale == 1.0 and health == "fixed":
        return "none"  # also of a fixed scale of 1, which has no effect
    return formats.loss_scale(scale) + (f" ({formats.scale_health(health)})" if health else "")


def _times(job: "JobView") -> list[tuple[str, str]]:
    return [
        ("created", formats.moment(job.created_at)),
        ("duration", duration_between(job.started_at, job.finished_at)),
    ]
