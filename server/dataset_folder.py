"""Check that a spec's `data.path` names a file or a folder of data sets."""

from itertools import islice
from pathlib import Path
from typing import Final

from ampcore.spec import JobSpec, Problem, SpecValidationError
from ampcore.spec.problems import closest_match, format_value

FOLDERS: Final = ("csv", "images", "parquet", "tfrecord")
"""The kinds of data that may be a folder of files."""
MAX_NAMES: Final = 1000
SHOWN_NAMES: Final = 5


class DatasetFolder:
    """The data sets of a server: the files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self, spec: JobSpec) -> None:
        """Raise SpecValidationError if the spec's data path is not one in the folder."""
        path, folders = getattr(spec.data, "path", ""), spec.data.kind in FOLDERS
        if path and (wrong := self._wrong(path, folders=folders)) is not None:
            raise SpecValidationError([self._problem(path, wrong)])

    def _wrong(self, path: str, *, folders: bool = False) -> str | None:
        """Why a path is refused: a sentence, or "" if there is no file; None if it is valid."""
        try:
            # An absolute path would replace the folder; a symbolic link may lead out of it.
            if Path(path).is_absolute():
                return ", an absolute path"
            folder = self._folder.resolve()
            file = (folder / path).resolve()
            if not file.is_relative_to(folder):
                return ", which leads out of the datasets folder"
            return None if file.is_file() or (folders and file.is_dir()) else ""
        except (OSError, RuntimeError):  # a name that is too long, or a loop of links
            return ""

    def _problem(self, path: str, wrong: str) -> Problem:
        names = self._names()
        listed = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        expected = (
            "a path, relative to the server's datasets folder, of a file in it "
            f"(it holds {listed or 'no files yet'})"
        )
        received = format_value(path) + wrong
        return Problem("/data/path", "no_such_file", expected, received, closest_match(path, names))

    def _names(self) -> list[str]:
        """The valid paths; only the first ones if there are many."""
        found = (file.relative_to(self._folder).as_posix() for file in self._folder.rglob("*"))
        return sorted(islice((name for name in found if self._wrong(name) is None), MAX_NAMES))
