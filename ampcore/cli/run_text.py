"""Shows the progress of a run: a live progress line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from ampspec.api.data_summary import DataSummary
from ampspec.documents.text import plural
from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.metrics import metrics_of
from ampspec.telemetry.ranges.number_formats import BFLOAT16, FLOAT16
from ampspec.telemetry.ranges.range_report import range_report
from ampspec.telemetry.ranges.range_samples import RangeSample

PRINT_INTERVAL_S: Final = 5.0
"""Seconds between two plain lines about steps."""

MIN_WIDTH_FOR_BAR: Final = 110
"""The terminal width in columns from which there is room for a progress bar."""


class RunProgress:
    """Shows the blocks and events of a run on a stream."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._live = self._console.is_terminal and not self._console.is_dumb_terminal
        columns = _columns(with_bar=self._console.width >= MIN_WIDTH_FOR_BAR)
        self._progress = Progress(*columns, console=self._console, disable=not self._live)
        self._task = self._progress.add_task(name, total=None, values="")
        self._total: int | None = None
        self._skipped = 0
        self._printed_at = -PRINT_INTERVAL_S
        self._samples: list[RangeSample] = []

    @property
    def range_sentences(self) -> dict[str, str]:
        """By 16-bit number format, what it would do to the layers; empty without samples."""
        reports = (range_report(self._samples, limits) for limits in (FLOAT16, BFLOAT16))
        return {report.number_format: report.sentence for report in reports if report is not None}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def block(self, block: StepBlock) -> None:
        """Show the newest step."""
        self._skipped += int(block["skipped"].sum())
        values = (
            f"loss {block['loss'][-1]:.4g}  scale {block['loss_scale'][-1]:.10g}  "
            f"skipped {self._skipped}  {block.examples_per_s:,.0f}/s"
        )
        self._progress.update(self._task, completed=block.end_step, values=values)
        if not self._live and self._is_due():
            self._print(f"{self._name}: step {block.end_step}/{self._total}  {values}")

    def event(self, event: Event) -> None:
        """Print the events that matter during the run."""
        match event.type:
            case EventType.STARTED:
                self._total = event.data["total_steps"]
                self._progress.update(self._task, total=self._total)
                self._print_data(event)
            case EventType.RANGES:
                self._samples.append(RangeSample.from_json(event.step or 0, event.data))
            case EventType.EVALUATION:
                steps = plural((event.step or 0) + 1, "step")
                self._print(f"{self._name}: after {steps}: {_evaluation(event.data)}")
            case EventType.PREFLIGHT if event.data["severity"] != "info":
                self._print(f"{self._name}: {event.data['severity']}: {event.data['message']}")
            case EventType.WARNING:
                self._print(f"{self._name}: warning: {event.data['message']}")
            case EventType.RESUMED:
                self._print(f"{self._name}: resumed after {plural(event.data['steps'], 'step')}")
            case EventType.ENGINE if event.data["candidates"][1:]:
                self._print(f"{self._name}: engine {event.data['engine']}: {event.data['reason']}")
            case EventType.OVERFLOW if "sentence" in event.data:
                self._print(f"{self._name}: step {event.step} skipped: {event.data['sentence']}")
            case EventType.STOPPED_EARLY:
                self._total = (event.step or 0) + 1
                self._progress.update(self._task, total=self._total)
                self._print(f"{self._name}: {event.data['message']}")
            case EventType.LOSS_SPIKE | EventType.GRAD_NORM_JUMP | EventType.NOT_REPRODUCIBLE:
                self._print(f"{self._name}: step {event.step}: {event.data['message']}")
            case EventType.ROLLBACK | EventType.FLOAT32_FALLBACK:
                self._print(f"{self._name}: {event.data['message']}")
            case EventType.SCALE_TABLE | EventType.WEIGHTS_LOADED:
                self._print(f"{self._name}: {event.data['sentence']}")

    def _print_data(self, event: Event) -> None:
        """Print which rows, columns and classes of a file are used."""
        summary = DataSummary.from_event(event.data)
        if summary is not None and summary.columns:
            for title, text in summary.lines():
                self._print(f"{self._name}: {title}: {text}")

    def _is_due(self) -> bool:
        now = time.monotonic()
        due = now - self._printed_at >= PRINT_INTERVAL_S
        self._printed_at = now if due else self._printed_at
        return due

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False)


def _columns(*, with_bar: bool) -> list[ProgressColumn]:
    bar = [BarColumn(bar_width=20)] if with_bar else []
    return [
        TextColumn("{task.description}", markup=False),
        *bar,
        MofNCompleteColumn(),
        TextColumn("{task.fields[values]}", markup=False),
        TimeRemainingColumn(compact=True),
    ]


def _evaluation(data: Mapping[str, Any]) -> str:
    """The data of an evaluation as text, the loss first."""
    shown, is_best = [], data.get("best") is True
    for name, value in metrics_of(data).items():
        plain = name.removeprefix("val_")
        is_share = plain.endswith("accuracy")
        shown.append(f"{plain} {value:.1%}" if is_share else f"{plain} {value:.4g}")
    return f"validation {', '.join(shown)}{' (the best so far)' if is_best else ''}"


def summary_lines(summary: dict[str, Any], model_file: str | None) -> list[str]:
    """The outcome of a run, one value per line, without those that are None.

    What each number format would do to the layers follows as sentences.
    """
    metrics = summary.get("metrics", {})
    values = {**metrics, **summary, "model_file": model_file}
    values.pop("metrics", None)
    constant_metrics = values.pop("constant_metrics", {})
    values |= {f"constant_{name}": value for name, value in constant_metrics.items()}
    sentences = values.pop("ranges", {}).values()
    lines = [f"{name:<17} {_value(value)}" for name, value in values.items() if value is not None]
    return [*lines, *sentences]


def _value(value: object) -> str:
    """A value in one line: an object, such as `best`, without the objects and lists in it."""
    if isinstance(value, Mapping):
        plain = {
            name: field for name, field in value.items() if not isinstance(field, Mapping | list)
        }
        return ", ".join(f"{name} {_value(field)}" for name, field in plain.items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)
