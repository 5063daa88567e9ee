"""Open the file that a spec names, and say what is wrong with it without telling where it lies."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ampcore.errors import InvalidData


def locate(path: str, data_root: Path | None) -> Path:
    """The file that `path` means: anywhere without a root, else under the root.

    Links are followed before the check. Raises InvalidData.
    """
    if data_root is None:
        return Path(path)
    root = data_root.resolve()
    try:
        found = (root / path).resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a zero byte
        found = root.parent
    if not found.is_relative_to(root):
        raise InvalidData(
            path, "path", expected="a path inside the data root", received="one that leaves it"
        )
    return found


@contextmanager
def opened(path: str, data_root: Path | None) -> Iterator[BinaryIO]:
    """The file that `path` means, to read from. Raises InvalidData, also for errors in reading."""
    file = locate(path, data_root)
    try:
        # is_file first: opening a pipe or a device could wait for ever.
        if not file.is_file():
            raise InvalidData(path, None, expected="a file", received="no file of this name")
        with file.open("rb") as stream:
            yield stream
    except OSError as error:
        # Its text would name the file by the server's own path.
        received = error.strerror or "a file that cannot be read"
        raise InvalidData(path, None, expected="a file to read", received=received) from None
