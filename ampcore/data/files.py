"""Finds the file that a spec names; errors do not reveal where it is on the server."""

from pathlib import Path

from ampspec.errors import InvalidData


def resolve_path(path: str, data_root: Path | None) -> Path:
    """The file at `path`: below the root if there is one, else anywhere.

    Links are followed before the check. Raises InvalidData.
    """
    if data_root is None:
        return Path(path)
    root = data_root.resolve()
    try:
        file = (root / path).resolve()
    except (OSError, RuntimeError, ValueError):  # circular links, a zero byte
        file = root.parent
    if not file.is_relative_to(root):
        raise InvalidData(
            path, "path", expected="a path inside the data root", received="a path outside it"
        )
    return file
