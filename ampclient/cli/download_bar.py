"""A bar for a file that is coming, on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

OnBytes = Callable[[str, int, int | None], object]
"""Called with a file's name, how many of its bytes are here, and how many there are, if known."""


@contextmanager
def download_bar() -> Iterator[OnBytes]:
    """The bar, while the files come; nothing where standard error is no terminal."""
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
