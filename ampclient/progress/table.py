"""Progress as a live table with a bar for each job; the table is a function of the jobs."""

from collections.abc import Sequence
from typing import Final, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ampclient import formats
from ampclient.progress.pace import Pace
from ampclient.tables import Column, fitted_table
from ampclient.views import JobView
from ampcore.spec import State

STYLES: Final = {
    "running": "cyan",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "yellow",
    "stopping": "yellow",
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

    def __init__(self, stream: TextIO) -> None:
        self._jobs: dict[str, tuple[JobView, float | None]] = {}
        self._paces: dict[str, Pace] = {}
        self._console = Console(file=stream)
        self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=4)

    def __call__(self, job: JobView) -> None:
        """Take over a new view of a job."""
        pace = self._paces.setdefault(job.id, Pace())
        pace.see(job)
        self._jobs[job.id] = (job, pace.remaining_s(job))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()  # draws once more, so the last view stays on the screen

    def _draw(self) -> Group:
        jobs = list(self._jobs.values())
        table = progress_table(jobs, self._console.width)
        return Group(table, *_messages([job for job, _ in jobs]))


def progress_table(jobs: Sequence[tuple[JobView, float | None]], width: int) -> Table:
    """One row for each job and the seconds it has left, for a terminal of this width."""
    # Where the terminal is narrow, the bar gives way first, then the name down to 12 characters,
    # then whole columns; no number is ever cut.
    bar_width = min(max(width - WIDTH_BESIDE_BAR, 4), 16)
    rows = [_cells(job, remaining_s, bar_width) for job, remaining_s in jobs]
    return fitted_table(COLUMNS, rows, width, gap=1, head_style="dim")


def styled_state(state: str) -> Text:
    """A state in its colour."""
    return Text(state, style=STYLES.get(state, ""))


def _messages(jobs: Sequence[JobView]) -> list[Text]:
    """A line for each job that has something to say, and one while nothing moves."""
    lines = [
        Text(formats.printable(f"{job.name}: {job.message}"), style="yellow")
        for job in jobs
        if job.message
    ]
    states = {job.state for job in jobs}
    if State.QUEUED in states and not any(state.is_active for state in states):
        lines.append(Text("waiting for a free worker", style="dim"))
    return lines


def _cells(job: JobView, remaining_s: float | None, bar_width: int) -> list[Text | ProgressBar]:
    latest = job.latest
    texts = [
        formats.steps(job.step, job.total_steps),
        formats.number(latest.loss if latest else None),
        formats.loss_scale(latest.loss_scale if latest else None),
        str(job.skipped),
        formats.rate(job.examples_per_s),
        formats.duration(remaining_s),
    ]
    bar = ProgressBar(total=job.total_steps or 1, completed=job.step, width=bar_width)
    if not job.total_steps:
        bar.update(0)
    name = Text(formats.printable(job.name), no_wrap=True)
    return [name, styled_state(job.state), bar, *(Text(text) for text in texts)]
