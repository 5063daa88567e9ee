"""The folder of data sets that jobs may read: a path in a spec names a file in it, or is wrong."""

from itertools import islice
from pathlib import Path
from typing import Final

from ampcore.spec import JobSpec, Problem, SpecInvalid
from ampcore.spec.problems import closest, shown

MAX_NAMES: Final = 1000
SHOWN_NAMES: Final = 5


class Datasets:
    """The files under one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self, spec: JobSpec) -> None:
        """Raises SpecInvalid when the spec's data has a path that is no file in the folder."""
        path = getattr(spec.data, "path", None)
        if path is not None and not self._holds(path):
            raise SpecInvalid([self._problem(path)])

    def _holds(self, path: str) -> bool:
        try:
            folder = self._folder.resolve()
            file = (folder / path).resolve()
            # An absolute path would replace the folder; one with links may lead out of it.
            return not Path(path).is_absolute() and file.is_relative_to(folder) and file.is_file()
        except (OSError, RuntimeError):  # too long a name, a loop of links
            return False

    def _problem(self, path: str) -> Problem:
        names = self._names()
        listed = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        expected = (
            "a path, relative to the server's datasets folder, of a file in it "
            f"(it holds {listed or 'no files yet'})"
        )
        return Problem("/data/path", "no_such_file", expected, shown(path), closest(path, names))

    def _names(self) -> list[str]:
        files = islice((file for file in self._folder.rglob("*") if file.is_file()), MAX_NAMES)
        return sorted(file.relative_to(self._folder).as_posix() for file in files)
