"""Progress as a live table with a bar for each job; the table is a function of the jobs."""

from collections.abc import Sequence
from typing import Final, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ampclient import formats
from ampclient.progress.standing import FirstStep, Standing, Watched, unknown
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
WIDTH_BESIDE_BAR: Final = 73
"""Columns of a terminal that the texts of a usual job take."""
COLUMNS: Final = (
    Column("job", shrinks_to=12),
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
    """Draws the jobs that it is shown, four times a second."""

    def __init__(self, stream: TextIO, first_step_of: FirstStep = unknown) -> None:
        self._standings: dict[str, Standing] = {}
        self._watched = Watched(first_step_of)
        self._console = Console(file=stream)
        self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=4)

    def __call__(self, job: JobView) -> None:
        """Take over a new view of a job."""
        self._standings[job.id] = self._watched.see(job)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()  # draws once more, so the last view stays on the screen

    def _draw(self) -> Group:
        standings = list(self._standings.values())
        table = progress_table(standings, self._console.width)
        return Group(table, *_messages(standings))


def progress_table(standings: Sequence[Standing], width: int) -> Table:
    """One row for each job, for a terminal of this width."""
    # Where the terminal is narrow, the bar gives way first, then the name down to 12 characters,
    # then whole columns; no number is ever cut.
    bar_width = min(max(width - WIDTH_BESIDE_BAR, 4), 16)
    rows = [_cells(standing, bar_width) for standing in standings]
    return fitted_table(COLUMNS, rows, width, gap=1, head_style="dim")


def styled_state(state: str) -> Text:
    """A state in its colour."""
    return Text(state, style=STYLES.get(state, ""))


def _messages(standings: Sequence[Standing]) -> list[Text]:
    """A line for whatever a job has to say: an attempt, what it waits for, what went wrong."""
    lines = []
    waiting = [standing for standing in standings if standing.waits_for]
    for standing in standings:
        # What one says of itself needs no name; of several each says which one it is.
        name = f"{formats.printable(standing.job.name)}: " if len(standings) > 1 else ""
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
    name = Text(formats.printable(job.name), no_wrap=True)
    return [name, styled_state(job.state), bar, *(Text(text) for text in texts)]
