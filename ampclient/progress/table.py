"""Progress as a live table with a bar and plots for each job; it is a function of the jobs."""

import time
from collections.abc import Sequence
from typing import Final, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ampclient import formats
from ampclient.progress.canvas import DOTS, PLAIN
from ampclient.progress.plots import plots, room_in
from ampclient.progress.samples import Samples
from ampclient.progress.standing import Standing, Watched
from ampclient.tables import Column, fitted_table
from ampclient.views import JobView

STYLES: Final = {
    "running": "cyan",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "yellow",
    "stopping": "yellow",
    "pausing": "magenta",
    "paused": "magenta",
}
EVERY_S: Final = 0.25
WIDTH_BESIDE_BAR: Final = 73
"""Columns of a terminal that the texts of a usual job take."""
NAMES: Final = (12, 32)
"""To how many characters a name may be cut: of a job alone, and of one among several."""
COLUMNS: Final = (
    Column("state"),
    Column("", gives_way=1),  # the bar
    Column("step", right=True),
    Column("loss", right=True),
    Column("scale", right=True),
    Column("skipped", right=True, gives_way=4),
    Column("examples/s", right=True, gives_way=2),
    Column("left", right=True, gives_way=3),
)


class LiveTable:
    """Draws the jobs that it is shown: when one has changed, at most four times a second."""

    def __init__(self, stream: TextIO, watched: Watched, samples: Samples) -> None:
        self._standings: dict[str, Standing] = {}
        self._watched = watched
        self._samples = samples
        self._away = ""
        self._console = Console(file=stream)
        self._ink = PLAIN if self._console.options.ascii_only else DOTS
        self._drawn_s = 0.0
        self._live = Live(console=self._console, get_renderable=self._draw, auto_refresh=False)

    def __call__(self, job: JobView) -> None:
        """Take over a new view of a job."""
        before = (self._standings.get(job.id), self._away)
        self._away = ""
        self._samples.see(job)
        self._standings[job.id] = self._watched.see(job)
        if before != (self._standings[job.id], ""):
            self._redraw()

    def away(self, why: str) -> None:
        """Say that the server is away, until it is there again."""
        self._away = f"{why} Trying again …"
        self._redraw()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()  # draws once more, so the last view stays on the screen

    def _redraw(self) -> None:
        if time.monotonic() - self._drawn_s >= EVERY_S:
            self._drawn_s = time.monotonic()
            self._live.refresh()

    def _draw(self) -> Group:
        standings = list(self._standings.values())
        table = progress_table(standings, self._console.width)
        messages = _messages(standings)
        if self._away:
            messages.append(Text(formats.printable(self._away), style="yellow"))
        # A line for each job and one above them; the cursor has a line of its own.
        taken = len(standings) + 2 + len(messages)
        return Group(table, *self._plots(standings, self._console.height - taken), *messages)

    def _plots(self, standings: Sequence[Standing], height: int) -> list[Text]:
        """Those of every job that has steps, below each other, if they all fit."""
        known = [(s, sample) for s in standings if (sample := self._samples.get(s.job.id))]
        room = room_in(self._console.width, height, len(known))
        if room is None:
            return []
        lines = []
        for standing, sample in known:
            lines += [Text(standing.name, style="bold")] if len(known) > 1 else []
            lines += plots(sample, room, self._ink)
        return lines


def progress_table(standings: Sequence[Standing], width: int) -> Table:
    """One row for each job, for a terminal of this width."""
    # Where the terminal is narrow, the name is cut first, then the bar gives way, then further
    # columns; no number is ever cut. Names tell several jobs apart, so less of them is cut.
    name = Column("job", shrinks_to=NAMES[len(standings) > 1])
    bar_width = min(max(width - WIDTH_BESIDE_BAR, 4), 16)
    rows = [_cells(standing, bar_width) for standing in standings]
    return fitted_table((name, *COLUMNS), rows, width, gap=1, head_style="dim")


def styled_state(state: str) -> Text:
    """A state in its colour."""
    return Text(state, style=STYLES.get(state, ""))


def _messages(standings: Sequence[Standing]) -> list[Text]:
    """A line for whatever a job has to say: an attempt, what it waits for, what went wrong."""
    lines = []
    waiting = [standing for standing in standings if standing.waits_for]
    for standing in standings:
        # What one says of itself needs no name; of several each says which one it is.
        name = f"{standing.name}: " if len(standings) > 1 else ""
        # Of those that wait the first speaks for all: a long queue would fill the screen.
        said = [standing.attempt, standing.waits_for if standing in waiting[:1] else None]
        lines += [Text(name + text, style="dim") for text in said if text]
        if standing.job.message:
            lines.append(Text(name + formats.printable(standing.job.message), style="yellow"))
    return lines


def _cells(standing: Standing, bar_width: int) -> list[Text | ProgressBar]:
    job = standing.job
    latest = job.latest
    texts = [
        formats.steps(job.step, job.total_steps),
        formats.number(latest.loss if latest else None),
        formats.loss_scale(latest.loss_scale if latest else None),
        str(job.skipped),
        formats.rate(job.examples_per_s),
        formats.duration(standing.remaining_s),
    ]
    bar = ProgressBar(total=job.total_steps or 1, completed=job.step, width=bar_width)
    if not job.total_steps:
        bar.update(0)
    name = Text(standing.name, no_wrap=True)
    return [name, styled_state(job.state), bar, *(Text(text) for text in texts)]
