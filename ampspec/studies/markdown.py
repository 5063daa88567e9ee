"""The answer of a study as Markdown."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from ampspec.api.studies import (
    BisectAnswer,
    CapacityAnswer,
    PolicyAnswer,
    PolicyCapacity,
    PrecisionAnswer,
    SearchAnswer,
    SearchRun,
    Study,
    TriedLayers,
)
from ampspec.precision.precision import ROLES

MISSING: Final = "–"
MIB: Final = 2**20
MAX_PATHS: Final = 4
"""Further layers of a job are only counted."""


def study_markdown(study: Study) -> str:
    """The study and its answer: tables, sentences and the ids of its jobs."""
    lines = [f"# {_text(study.name)}", "", f"Study `{study.id}`, kind `{study.kind}`.", ""]
    match study.answer:
        case PrecisionAnswer():
            lines += _precision(study.answer)
        case CapacityAnswer():
            lines += _capacity(study.answer)
        case BisectAnswer():
            lines += _bisect(study.answer)
        case SearchAnswer():
            lines += _search(study.answer)
    return "\n".join(lines) + "\n"


def _precision(answer: PrecisionAnswer) -> Iterable[str]:
    better = "higher" if answer.higher_is_better else "lower"
    yield from (f"**{answer.summary}**", "")
    head = ("policy", "verdict", "difference", "interval", "speed-up", "memory")
    yield from _table(
        (*head, "largest batch", "skipped"), [_precision_row(policy) for policy in answer.policies]
    )
    margin = "" if answer.margin is None else f" Margin: ±{answer.margin:.4g}."
    yield from (
        "",
        f"Metric: `{answer.metric}` ({better} is better). Test: {answer.test}.{margin} Noise band "
        f"of float32: ±{answer.noise.half_width:.4g} over the seeds "
        f"{', '.join(map(str, answer.seeds))}. Intervals: {answer.confidence:.0%}.",
        "",
    )
    for policy in answer.policies:
        yield f"- `{policy.policy}`: {policy.explanation} Jobs: {_jobs(policy.jobs)}."
    chosen = next(policy for policy in answer.policies if policy.policy == answer.recommended)
    yield from ("", "Write into the spec:", "", "```json")
    yield json.dumps(chosen.write, indent=2)
    yield "```"


def _precision_row(policy: PolicyAnswer) -> list[str]:
    interval = MISSING
    if policy.interval is not None:
        interval = "[" + ", ".join(f"{bound:+.4g}" for bound in policy.interval) + "]"
    batch = MISSING if policy.largest_batch is None else f"{policy.largest_batch:,}"
    source = (
        "" if policy.largest_batch is None or policy.largest_batch_is_measured else " (estimated)"
    )
    return [
        f"`{policy.policy}`",
        policy.verdict,
        MISSING if policy.difference is None else f"{policy.difference:+.4g}",
        interval,
        MISSING if policy.speedup is None else f"{policy.speedup:.2f} ×",
        _mebibytes(policy.memory),
        batch + source,
        MISSING if policy.skipped_share is None else f"{100 * policy.skipped_share:.2g} %",
    ]


def _bisect(answer: BisectAnswer) -> Iterable[str]:
    yield from (f"**{answer.summary}**", "")
    if answer.layers:
        rows = [
            [
                f"`{layer.path}`",
                layer.kind,
                ", ".join(layer.roles) if len(layer.roles) < len(ROLES) else "whole layer",
                layer.explanation,
                f"`{layer.job}`",
            ]
            for layer in answer.layers
        ]
        yield from _table(("layer", "kind", "in float32", "evidence", "job"), rows)
        yield from ("", "Write into the spec:", "", "```json")
        yield json.dumps(answer.write, indent=2)
        yield from ("```", "")
    better = "higher" if answer.higher_is_better else "lower"
    yield from (
        f"Metric: `{answer.metric}` ({better} is better). Noise band of float32: "
        f"±{answer.noise.half_width:.4g}. Jobs of float32, and of the policy alone: "
        f"{_jobs(answer.jobs)}.",
        "",
    )
    yield from _table(
        ("run", "in float32", "passes", "result", "job"),
        [_tried_row(number, layer) for number, layer in enumerate(answer.tried, start=1)],
    )


def _tried_row(number: int, trial: TriedLayers) -> list[str]:
    paths = ", ".join(f"`{path}`" for path in trial.float32[:MAX_PATHS]) or "none"
    more = len(trial.float32) - MAX_PATHS
    return [
        str(number),
        paths + (f" and {more} more" if more > 0 else ""),
        "yes" if trial.passes else "no",
        trial.explanation,
        f"`{trial.job}`",
    ]


def _capacity(answer: CapacityAnswer) -> Iterable[str]:
    yield from (f"**{answer.summary}**", "")
    memory = _mebibytes(answer.device_memory_bytes)
    limit = _mebibytes(answer.memory_limit_bytes)
    yield f"Device: {answer.device or 'not known'}, memory {memory}, limit of a trainer {limit}."
    for policy in answer.policies:
        yield from _capacity_section(policy)


def _capacity_section(policy: PolicyCapacity) -> Iterable[str]:
    predicted = MISSING if policy.predicted is None else f"≈ {policy.predicted:,}"
    critical = MISSING if policy.critical_batch is None else f"{policy.critical_batch:,}"
    yield from ("", f"## {policy.policy}", "", policy.explanation, "")
    yield from (f"Predicted: {predicted}. Critical batch: {critical}.", "")
    rows = [
        [
            f"{batch.batch_size:,}",
            "yes" if batch.fits else "no",
            MISSING if batch.examples_per_s is None else f"{batch.examples_per_s:,.0f}",
            _mebibytes(batch.peak_memory_bytes),
            f"`{batch.job}`",
        ]
        for batch in policy.batches
    ]
    yield from _table(("batch", "fits", "examples/s", "peak memory", "job"), rows)


def _search(answer: SearchAnswer) -> Iterable[str]:
    yield from (f"**{answer.summary}**", "", "Write into the spec:", "", "```json")
    yield json.dumps(answer.write, indent=2)
    better = "higher" if answer.higher_is_better else "lower"
    yield from ("```", "", f"Metric: `{answer.metric}` ({better} is better).", "")
    rows = [
        [
            f"`{parameter.path}`",
            MISSING if parameter.importance is None else f"{100 * parameter.importance:.0f} %",
        ]
        for parameter in answer.parameters
    ]
    yield from _table(("parameter", "importance"), rows)
    yield ""
    paths = [parameter.path for parameter in answer.parameters]
    yield from _table(
        ("run", *(f"`{path}`" for path in paths), answer.metric, "steps", "state", "jobs"),
        [_search_row(parameter, paths) for parameter in answer.runs],
    )


def _search_row(run: SearchRun, paths: Sequence[str]) -> list[str]:
    return [
        str(run.number),
        *(f"`{json.dumps(run.values[path])}`" for path in paths),
        MISSING if run.value is None else f"{run.value:.4g}",
        MISSING if run.steps is None else f"{run.steps:,}",
        run.state + (f": {run.explanation}" if run.explanation else ""),
        _jobs(run.jobs),
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _mebibytes(size: int | None) -> str:
    return MISSING if size is None else f"{size / MIB:,.1f} MiB"


def _jobs(ids: Sequence[str]) -> str:
    return ", ".join(f"`{job}`" for job in ids)


def _text(name: str) -> str:
    """A name on one line, with Markdown escaped."""
    line = " ".join(name.split())
    return "".join(f"\\{char}" if char in "\\`*_[]<>#|" else char for char in line)
