"""Shows progress as a live table with a bar and plots for each job."""

import time
from collections.abc import Sequence
from typing import Final, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ampclient._display import formats
from ampclient._display.terminal_table import TableColumn, fitted_table
from ampclient._job.view import JobView
from ampclient.progress.dot_canvas import ASCII_DOTS, BRAILLE_DOTS
from ampclient.progress.job_progress import JobProgress, ProgressTracker
from ampclient.progress.plots import plot_size, plots
from ampclient.progress.samples import SampleCache

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
"""Terminal columns that the texts of a typical job take."""
NAMES: Final = (12, 32)
"""Minimum characters of a job's name: for a single job, and for one of several."""
COLUMNS: Final = (
    TableColumn("state"),
    TableColumn("", drop_order=1),  # the bar
    TableColumn("step", align_right=True),
    TableColumn("loss", align_right=True),
    TableColumn("scale", align_right=True),
    TableColumn("skipped", align_right=True, drop_order=4),
    TableColumn("examples/s", align_right=True, drop_order=2),
    TableColumn("left", align_right=True, drop_order=3),
)


class LiveTable:
    """Redraws the table when a job has changed, at most four times a second."""

    def __init__(self, stream: TextIO, tracker: ProgressTracker, samples: SampleCache) -> None:
        self._progresses: dict[str, JobProgress] = {}
        self._tracker = tracker
        self._samples = samples
        self._unavailable = ""
        self._console = Console(file=stream)
        self._dot_style = ASCII_DOTS if self._console.options.ascii_only else BRAILLE_DOTS
        self._drawn_s = 0.0
        self._live = Live(console=self._console, get_renderable=self._draw, auto_refresh=False)

    def __call__(self, job: JobView) -> None:
        """Show a new view of a job."""
        shown_state = (self._progresses.get(job.id), self._unavailable)
        self._unavailable = ""
        self._samples.update(job)
        self._progresses[job.id] = self._tracker.update(job)
        if shown_state != (self._progresses[job.id], ""):
            self._redraw()

    def server_unavailable(self, reason: str) -> None:
        """Show that the server does not respond, until it responds again."""
        self._unavailable = f"{reason} Retrying …"
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
        progresses = list(self._progresses.values())
        table = progress_table(progresses, self._console.width)
        messages = _messages(progresses)
        if self._unavailable:
            messages.append(Text(formats.printable(self._unavailable), style="yellow"))
        # A line for each job and one above them; the cursor has a line of its own.
        taken = len(progresses) + 2 + len(messages)
        return Group(table, *self._plots(progresses, self._console.height - taken), *messages)

    def _plots(self, progresses: Sequence[JobProgress], height: int) -> list[Text]:
        """The plots of all jobs with steps, stacked; none if they do not all fit."""
        sampled = [(s, sample) for s in progresses if (sample := self._samples.get(s.job.id))]
        size = plot_size(self._console.width, height, len(sampled))
        if size is None:
            return []
        lines = []
        for progress, sample in sampled:
            lines += [Text(progress.name, style="bold")] if len(sampled) > 1 else []
            lines += plots(sample, size, self._dot_style)
        return lines


def progress_table(progresses: Sequence[JobProgress], width: int) -> Table:
    """One row for each job, for a terminal of this width."""
    # On a narrow terminal, first the name is cut, then the bar is dropped, then other columns; no #
    # number is ever cut. With several jobs less of a name is cut, since it identifies the job.
    name = TableColumn("job", min_width=NAMES[len(progresses) > 1])
    bar_width = min(max(width - WIDTH_BESIDE_BAR, 4), 16)
    rows = [_cells(progress, bar_width) for progress in progresses]
    return fitted_table((name, *COLUMNS), rows, width, gap=1, header_style="dim")


def styled_state(state: str) -> Text:
    """A state, or a state and a note after a comma, with the colour of the state."""
    return Text(state, style=STYLES.get(state.partition(",")[0], ""))


def _messages(progresses: Sequence[JobProgress]) -> list[Text]:
    """Lines below the table: a new attempt, what a job waits for, metrics, or its error message."""
    lines = []
    waiting = [progress for progress in progresses if progress.waiting_for]
    for progress in progresses:
        # With a single job the name is redundant.
        name = f"{progress.name}: " if len(progresses) > 1 else ""
        # Only the first waiting job gets a line: a long queue would fill the screen.
        said = [progress.attempt, progress.waiting_for if progress in waiting[:1] else None]
        lines += [Text(name + text, style="dim") for text in said if text]
        if progress.job.metrics:
            lines.append(Text(name + formats.metrics(progress.job.metrics), style="dim"))
        if progress.job.message:
            lines.append(Text(name + formats.printable(progress.job.message), style="yellow"))
    return lines


def _cells(progress: JobProgress, bar_width: int) -> list[Text | ProgressBar]:
    job = progress.job
    latest = job.latest
    texts = [
        formats.steps(job.step, job.total_steps),
        formats.number(latest.loss if latest else None),
        formats.loss_scale(latest.loss_scale if latest else None),
        str(job.skipped),
        formats.rate(job.examples_per_s),
        formats.duration(progress.remaining_s),
    ]
    bar = ProgressBar(total=job.total_steps or 1, completed=job.step, width=bar_width)
    if not job.total_steps:
        bar.update(0)
    name = Text(progress.name, no_wrap=True)
    return [name, styled_state(job.state_text), bar, *(Text(text) for text in texts)]
