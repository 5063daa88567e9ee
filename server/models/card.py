"""The model card of a version: Markdown, generated from what is stored.

It says what was not measured, too: a section without data names it instead of being left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ampspec.api.data_summary import DataSummary
from ampspec.api.models import Model, ModelVersion
from ampspec.documents.text import plural
from server.models.card_facts import TrainingFacts

MAX_FINDINGS: Final = 20
UNKNOWN: Final = "not recorded"


def model_card(model: Model, version: ModelVersion, facts: TrainingFacts) -> str:
    """The card of a version.

    Args:
        model: Its model.
        version: The version.
        facts: Of the training of its job.

    Returns:
        Markdown; text of users has no meaning in it.
    """
    sections = (
        _head(model, version),
        _use(version),
        _data(version),
        _metrics(version),
        _precision(version, facts),
        _ranges(facts),
        _training(version),
        _files(version),
        _limits(version, facts),
    )
    return "\n".join(line for section in sections for line in section) + "\n"


def _head(model: Model, version: ModelVersion) -> Iterator[str]:
    yield f"# {_text(version.reference)}"
    yield ""
    if version.deleted_at is not None:
        yield f"**Deleted** {version.deleted_at:%Y-%m-%d %H:%M} UTC."
        yield ""
    yield from _pairs(
        {
            "aliases": ", ".join(version.aliases) or "none",
            "registered": f"{version.created_at:%Y-%m-%d %H:%M} UTC by "
            f"{version.created_by or 'unknown'}",
            "job": f"{version.job_name} ({version.job_id or 'deleted'})",
            "study": version.lineage.get("study") or "none",
            "project": model.project,
            **{f"tag {key}": value for key, value in {**model.tags, **version.tags}.items()},
        }
    )
    for note in (model.note, version.note):
        if note:
            yield ""
            yield from (f"> {_text(line)}" for line in note.splitlines())
    yield ""


def _use(version: ModelVersion) -> Iterator[str]:
    yield from _heading("Inputs and outputs")
    models = (version.signature or {}).get("models")
    if not isinstance(models, Mapping) or not models:
        yield from ("Not recorded: the job has stored no signature.", "")
        return
    rows = [
        (network, side.removesuffix("s"), name, _shape(tensor), tensor.get("dtype", UNKNOWN))
        for network, sides in models.items()
        if isinstance(sides, Mapping)
        for side in ("inputs", "outputs")
        for name, tensor in (sides.get(side) or {}).items()
        if isinstance(tensor, Mapping)
    ]
    yield from _table(("network", "side", "name", "shape", "dtype"), rows)
    yield from ("Shapes leave out the batch axis. Outputs are logits for classes.", "")


def _data(version: ModelVersion) -> Iterator[str]:
    yield from _heading("Data")
    data = version.lineage.get("data") or {}
    source = data.get("source") or {}
    reference = data.get("reference") or f"{source.get('kind', UNKNOWN)} (not a dataset)"
    pairs = {"version": reference}
    summary = DataSummary.from_event({"data": data.get("summary")})
    if summary is not None:
        pairs |= dict(summary.lines())
    yield from _pairs(pairs)
    if summary is None:
        yield "- summary: not recorded by the job"
    yield ""


def _metrics(version: ModelVersion) -> Iterator[str]:
    yield from _heading("Metrics")
    if not version.metrics:
        yield from ("Not measured: the job had no validation data.", "")
        return
    constants = version.lineage.get("constant_metrics") or {}
    rows = [
        (name, _number(value), _number(constants[name]) if name in constants else UNKNOWN)
        for name, value in version.metrics.items()
    ]
    yield from _table(("metric", "value", "best constant prediction"), rows, numbers=(1, 2))
    summary = DataSummary.from_event({"data": (version.lineage.get("data") or {}).get("summary")})
    if summary is not None and summary.validation:
        yield f"Measured on {plural(summary.validation, 'validation row')}, of the saved weights."
    else:
        yield "The number of validation rows is not recorded."
    yield ""


def _loss_scale(precision: Mapping[str, Any]) -> dict[str, str]:
    """The mode of the loss scale, and the health of one that changes."""
    scale, health = precision.get("loss_scale"), precision.get("scale_health")
    mode = scale.get("mode") if isinstance(scale, Mapping) else None
    if mode is None:  # the policy's own
        mode = {"fixed": "none", None: UNKNOWN}.get(health, "dynamic")
    if mode in ("none", "fixed"):
        return {"loss scale": mode}
    return {"loss scale": mode, "health of the loss scale": health or UNKNOWN}


def _precision(version: ModelVersion, facts: TrainingFacts) -> Iterator[str]:
    yield from _heading("Precision")
    precision = version.lineage.get("precision") or {}
    results = version.lineage.get("results") or {}
    yield from _pairs(
        {
            "policy": precision.get("policy") or UNKNOWN,
            "asked for": precision.get("asked") or UNKNOWN,
            **_loss_scale(precision),
            "skipped steps": _share(results.get("skipped_share")),
            "TF32": _yes_no(precision.get("tf32")),
            "engine": precision.get("engine") or UNKNOWN,
            **{
                f"events {name}": f"{count}{' or more' if facts.more_events else ''}"
                for name, count in facts.event_counts.items()
            },
        }
    )
    yield ""
    if facts.findings:
        yield "Findings:"
        yield ""
        yield from (f"- {_text(message)}" for message in facts.findings[:MAX_FINDINGS])
        if len(facts.findings) > MAX_FINDINGS:
            yield f"- and {len(facts.findings) - MAX_FINDINGS} more; see the events of the job"
        yield ""


def _ranges(facts: TrainingFacts) -> Iterator[str]:
    yield from _heading("Ranges of values")
    if not facts.range_sentences:
        yield from ("Not measured: the job sampled no ranges (`telemetry.ranges`).", "")
        return
    yield f"From {plural(facts.sampled_steps, 'sampled step')}:"
    yield ""
    yield from (f"- {name}: {_text(text)}" for name, text in facts.range_sentences.items())
    yield ""


def _training(version: ModelVersion) -> Iterator[str]:
    yield from _heading("Training")
    lineage = version.lineage
    code, seeds = lineage.get("code") or {}, lineage.get("seeds") or {}
    results = lineage.get("results") or {}
    yield from _pairs(
        {
            "model": code.get("kind") or UNKNOWN,
            "code": code.get("bundle") or code.get("package") or "built in",
            "training seed": seeds.get("train"),
            "split seed": seeds.get("split"),
            "steps": results.get("steps"),
            "parameters": results.get("parameters"),
            "weights": "best evaluation" if lineage.get("is_best") else "as chosen by train.keep",
            "SHA-256 of the weights": lineage.get("weights_digest"),
            "extends job": lineage.get("extends") or "none",
            **{
                str(name): value
                for name, value in (lineage.get("environment") or {}).items()
                if not isinstance(value, dict | list)
            },
        }
    )
    yield ""


def _files(version: ModelVersion) -> Iterator[str]:
    yield from _heading("Files")
    rows = [
        (
            file.format,
            file.state,
            file.file_name or "",
            "" if file.size_bytes is None else f"{file.size_bytes:,}",
            file.sha256 or "",
            file.reason or file.checked or "",
        )
        for file in version.files
    ]
    columns = ("format", "state", "file", "bytes", "SHA-256", "check or reason")
    yield from _table(columns, rows, numbers=(3,))
    yield ""


def _limits(version: ModelVersion, facts: TrainingFacts) -> Iterator[str]:
    yield from _heading("What was not measured")
    if not version.metrics:
        yield "- The quality of the predictions: there were no validation data."
    if not facts.range_sentences:
        yield "- Which number formats the values of the layers fit: no ranges were sampled."
    yield "- Other data than the validation rows above; other groups of them than all together."
    yield "- The spread over seeds: this is one training. A study of precision measures it."
    for file in version.files:
        if file.state == "available" and file.checked is None and file.format == "onnx":
            yield f"- The outputs of the {file.format} file."
    yield "- Speed and memory of predictions."


def _heading(title: str) -> Iterator[str]:
    yield f"## {title}"
    yield ""


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        shown = UNKNOWN if value is None else _number(value)
        yield f"- {_text(name)}: {_text(shown)}"


def _table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[int] = ()
) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    rules = ("---:" if index in numbers else "---" for index in range(len(headings)))
    yield f"| {' | '.join(rules)} |"
    yield from (f"| {' | '.join(_text(str(cell)) for cell in row)} |" for row in rows)
    yield ""


def _shape(tensor: Mapping[str, Any]) -> str:
    shape = tensor.get("shape")
    if not isinstance(shape, list):
        return UNKNOWN
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:.6g}"
    return str(value)


def _share(value: Any) -> str:
    return f"{value:.2%}" if isinstance(value, int | float) else UNKNOWN


def _yes_no(value: Any) -> str:
    return UNKNOWN if value is None else "yes" if value else "no"


def _text(text: str) -> str:
    """The text on one line, without a meaning in Markdown or HTML."""
    line = " ".join(str(text).split())
    for sign in "\\`*_[]|":
        line = line.replace(sign, f"\\{sign}")
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
