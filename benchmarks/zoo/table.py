"""The table of the zoo in Markdown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from zoo.architecture import Architecture
from zoo.outcome import Outcome, Row

COLUMNS = ("float32", "mixed_bfloat16", "mixed_float16", "saved", "resume", "refused")
HEADINGS = (
    "model",
    "parameters",
    "float32: largest difference from Keras",
    "mixed_bfloat16: distance of the end",
    "mixed_float16: distance of the end",
    "saved model",
    "stop and resume",
    "refusal",
    "notes",
)


def markdown(rows: Sequence[Row], architectures: Mapping[str, Architecture]) -> Iterator[str]:
    """The lines of a table for each source."""
    sources = dict.fromkeys(row.source.partition(":")[0] for row in rows)
    for source in sources:
        yield f"\n**{source}**\n"
        yield f"| {' | '.join(HEADINGS)} |"
        yield "| --- " * len(HEADINGS) + "|"
        for row in rows:
            if row.source.partition(":")[0] == source:
                yield line(row, architectures[row.name])


def line(row: Row, architecture: Architecture) -> str:
    """The line of a model."""
    notes = list(_notes(row, architecture))
    cells = [_cell(row.outcomes.get(column)) for column in COLUMNS]
    if cells[COLUMNS.index("resume")].startswith("stopped after"):
        cells[COLUMNS.index("resume")] = "bit-equal"
    if row.outcomes.get("refused", Outcome("failed", "")).status == "passed":
        cells[COLUMNS.index("refused")] = "by name"
    return f"| {' | '.join([row.name, f'{row.parameters:,}', *cells, '; '.join(notes)])} |"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "–"
    return outcome.detail if outcome.status == "passed" else f"**{outcome.status}**"


def _notes(row: Row, architecture: Architecture) -> Iterator[str]:
    if kind := row.source.partition(": ")[2]:
        yield kind
    if row.not_run:
        yield f"not run: {row.not_run}"
    if architecture.left_out:
        yield architecture.left_out
    if architecture.chaotic:
        yield f"chaotic: {architecture.chaotic}"
    reasons: dict[str, list[str]] = {}
    for check, outcome in row.outcomes.items():
        if outcome.status != "passed":
            text = " ".join(outcome.detail.split()).replace("|", "/")
            reasons.setdefault(text[:300], []).append(check)
    for reason, checks in reasons.items():
        yield f"{', '.join(checks)}: {reason}"


def counts(rows: Iterable[Row]) -> str:
    """The last line: how many rows there are of each kind."""
    rows = list(rows)
    failed = sum(row.has_failed for row in rows)
    documented = sum(row.is_documented for row in rows)
    not_run = sum(bool(row.not_run) for row in rows)
    passed = len(rows) - failed - documented - not_run
    return (
        f"{len(rows)} models: {passed} pass every check, {documented} deviate for documented "
        f"reasons, {failed} fail, {not_run} not run"
    )
