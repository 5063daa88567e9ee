"""The progress bar of a download, on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

OnBytes = Callable[[str, int, int | None], object]
"""Called with a file's name, the bytes received so far, and its size if known."""


@contextmanager
def download_bar() -> Iterator[OnBytes]:
    """Show the bar inside the context; show nothing if standard error is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=None)
        yield lambda name, size_bytes, total_bytes: progress.update(
            task, description=name, completed=size_bytes, total=total_bytes
        )
