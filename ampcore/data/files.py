"""Opens the file that a spec names; errors do not reveal where it is on the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ampcore.errors import InvalidData


def resolve_path(path: str, data_root: Path | None) -> Path:
    """The file at `path`: below the root if there is one, else anywhere.

    Links are followed before the check. Raises InvalidData.
    """
    if data_root is None:
        return Path(path)
    root = data_root.resolve()
    try:
        found = (root / path).resolve()
    except (OSError, RuntimeError, ValueError):  # circular links, a zero byte
        found = root.parent
    if not found.is_relative_to(root):
        raise InvalidData(
            path, "path", expected="a path inside the data root", received="a path outside it"
        )
    return found


@contextmanager
def open_data_file(path: str, data_root: Path | None) -> Iterator[BinaryIO]:
    """Open the file at `path` to read. Raises InvalidData, also for errors while reading."""
    file = resolve_path(path, data_root)
    try:
        # is_file first: opening a pipe or a device could block forever.
        if not file.is_file():
            raise InvalidData(path, None, expected="a file", received="no file of this name")
        with file.open("rb") as stream:
            yield stream
    except OSError as error:
        # The message of the OSError would show the server's own path.
        received = error.strerror or "a file that cannot be read"
        raise InvalidData(path, None, expected="a file to read", received=received) from None
