"""Plots loss, loss scale and skipped steps of a job on a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

from ampclient._display import formats
from ampclient.progress.dot_canvas import DotStyle

if TYPE_CHECKING:
    from ampclient._telemetry.step_sample import StepSample
    from ampclient.progress.curve import Curve

COLUMNS: Final = ("loss", "loss_scale", "skipped")
LABEL_WIDTH: Final = 16
"""Characters for names and numbers, left of the plots."""
MIN_CELLS: Final = 16
MAX_ROWS: Final = 4
SKIPPED_STYLE: Final = "bold red"

Label = Callable[[float | None], str]


@dataclass(frozen=True)
class PlotSize:
    """The size of a job's plots: `cells` characters wide, `rows` lines per curve."""

    cells: int
    rows: int

    @property
    def lines(self) -> int:
        """The maximum number of lines: two curves, the skips and, if there is room, the steps."""
        return 2 * self.rows + 1 + (self.rows > 1)


def plot_size(width: int, height: int, jobs: int) -> PlotSize | None:
    """The size of the stacked plots of this many jobs; None if there is not enough room."""
    titles = 1 if jobs > 1 else 0
    for rows in range(MAX_ROWS, 0, -1):
        size = PlotSize(width - LABEL_WIDTH - 1, rows)
        if size.cells >= MIN_CELLS and jobs * (size.lines + titles) <= height:
            return size
    return None


def plots(sample: "StepSample", size: PlotSize, style: DotStyle) -> list[Text]:
    """The lines of the plots; columns with a skipped step are red in all curves."""
    from ampclient.progress.curve import curve_of, skips_in

    if not len(sample):
        return []
    skips = [bool(skip) for skip in skips_in(sample, size.cells)]
    width = size.cells * style.dots_wide
    lines = _curve("loss", curve_of(sample, "loss", width), formats.number, size, style)
    if "loss_scale.min" in sample or "loss_scale" in sample:
        scale = curve_of(sample, "loss_scale", width, is_log=True)
        lines += _curve("scale", scale, formats.loss_scale, size, style)
    for line in lines:
        _mark_skips(line, skips)
    if total := sample.skipped_steps.total:
        marks = "".join(style.skip_mark if skip else " " for skip in skips), SKIPPED_STYLE
        lines.append(_line("skips", str(total), marks))
    if size.rows > 1:
        lines.append(_axis(sample, size))
    return lines


def _curve(name: str, curve: "Curve", label: Label, size: PlotSize, style: DotStyle) -> list[Text]:
    """A curve with its maximum as the label of its top and its minimum of its bottom."""
    texts = style.lines(curve.dots(size.rows * style.dots_high))
    low, high = curve.value_range or (None, None)
    labels = [""] * size.rows
    labels[-1], labels[0] = label(low), label(high)
    if low == high:  # a flat line runs through the middle
        labels = ["" if row != size.rows // 2 else label(high) for row in range(size.rows)]
    names = [name, "(log)" if curve.is_log and name != "scale" else "", "", ""]
    return [
        _line(word, number, (text, "cyan"))
        for word, number, text in zip(names, labels, texts, strict=False)
    ]


def _line(name: str, label: str, plot: tuple[str, str]) -> Text:
    """A line: its name, a number, and the plot with its style."""
    gutter = f"{name:<6}{label:>{LABEL_WIDTH - 7}} "
    return Text.assemble((gutter, "dim"), plot, no_wrap=True)


def _mark_skips(line: Text, skips: Sequence[bool]) -> None:
    for column, skip in enumerate(skips):
        if skip:
            line.stylize(SKIPPED_STYLE, LABEL_WIDTH + column, LABEL_WIDTH + column + 1)


def _axis(sample: "StepSample", size: PlotSize) -> Text:
    """The first and the last step, as the x axis."""
    count = int(sample["count"][-1]) if "count" in sample else 1
    first, last = str(sample["step"][0]), str(int(sample["step"][-1]) + count - 1)
    return _line("step", "", (f"{first}{last:>{size.cells - len(first)}}", "dim"))
