"""Loss, loss scale and skipped steps of a job as small plots for a terminal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.text import Text

from ampclient import formats
from ampclient.progress.canvas import Ink

if TYPE_CHECKING:
    from ampclient.progress.curve import Curve
    from ampclient.views import StepSample

COLUMNS: Final = ("loss", "loss_scale", "skipped")
GUTTER: Final = 16
"""Characters for names and numbers, left of the plots."""
LEAST_CELLS: Final = 16
MOST_ROWS: Final = 4
SKIPPED_STYLE: Final = "bold red"

Label = Callable[[float | None], str]


@dataclass(frozen=True)
class Room:
    """How large the plots of a job may be: `cells` characters across, `rows` lines for a curve."""

    cells: int
    rows: int

    @property
    def lines(self) -> int:
        """How many lines they take at most: two curves, the skips and, if there is room, steps."""
        return 2 * self.rows + 1 + (self.rows > 1)


def room_in(width: int, height: int, jobs: int) -> Room | None:
    """The room for the plots of so many jobs below each other; None where there is too little."""
    titles = 1 if jobs > 1 else 0
    for rows in range(MOST_ROWS, 0, -1):
        room = Room(width - GUTTER - 1, rows)
        if room.cells >= LEAST_CELLS and jobs * (room.lines + titles) <= height:
            return room
    return None


def plots(sample: "StepSample", room: Room, ink: Ink) -> list[Text]:
    """The lines; a place where a step was skipped is red in every one of them."""
    from ampclient.progress.curve import curve_of, skips_in

    if not len(sample):
        return []
    skips = [bool(skip) for skip in skips_in(sample, room.cells)]
    width = room.cells * ink.across
    lines = _curve("loss", curve_of(sample, "loss", width), formats.number, room, ink)
    if "loss_scale.min" in sample or "loss_scale" in sample:
        scale = curve_of(sample, "loss_scale", width, is_log=True)
        lines += _curve("scale", scale, formats.loss_scale, room, ink)
    for line in lines:
        _redden(line, skips)
    if total := sample.skipped_steps.total:
        marks = "".join(ink.mark if skip else " " for skip in skips), SKIPPED_STYLE
        lines.append(_line("skips", str(total), marks))
    if room.rows > 1:
        lines.append(_axis(sample, room))
    return lines


def _curve(name: str, curve: "Curve", label: Label, room: Room, ink: Ink) -> list[Text]:
    """A curve with its largest value beside its top, and its least beside its bottom."""
    texts = ink.lines(curve.dots(room.rows * ink.down))
    low, high = curve.ends or (None, None)
    labels = [""] * room.rows
    labels[-1], labels[0] = label(low), label(high)
    if low == high:  # a flat line runs through the middle
        labels = ["" if row != room.rows // 2 else label(high) for row in range(room.rows)]
    names = [name, "(log)" if curve.is_log and name != "scale" else "", "", ""]
    return [
        _line(word, number, (text, "cyan"))
        for word, number, text in zip(names, labels, texts, strict=False)
    ]


def _line(name: str, label: str, plot: tuple[str, str]) -> Text:
    """A line: what it shows, a number, and the plot with its style."""
    gutter = f"{name:<6}{label:>{GUTTER - 7}} "
    return Text.assemble((gutter, "dim"), plot, no_wrap=True)


def _redden(line: Text, skips: Sequence[bool]) -> None:
    for place, skip in enumerate(skips):
        if skip:
            line.stylize(SKIPPED_STYLE, GUTTER + place, GUTTER + place + 1)


def _axis(sample: "StepSample", room: Room) -> Text:
    """The first and the last step, below the ends of the plots."""
    count = int(sample["count"][-1]) if "count" in sample else 1
    first, last = str(sample["step"][0]), str(int(sample["step"][-1]) + count - 1)
    return _line("step", "", (f"{first}{last:>{room.cells - len(first)}}", "dim"))
