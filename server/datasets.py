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
        if path is not None and (wrong := self._wrong(path)) is not None:
            raise SpecInvalid([self._problem(path, wrong)])

    def _wrong(self, path: str) -> str | None:
        """Why a path is refused; empty for want of a file, None when it is not refused."""
        try:
            # An absolute path would replace the folder; one with links may lead out of it.
            if Path(path).is_absolute():
                return ", an absolute path"
            folder = self._folder.resolve()
            file = (folder / path).resolve()
            if not file.is_relative_to(folder):
                return ", which leads out of the datasets folder"
            return None if file.is_file() else ""
        except (OSError, RuntimeError):  # too long a name, a loop of links
            return ""

    def _problem(self, path: str, wrong: str) -> Problem:
        names = self._names()
        listed = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
        expected = (
            "a path, relative to the server's datasets folder, of a file in it "
            f"(it holds {listed or 'no files yet'})"
        )
        received = shown(path) + wrong
        return Problem("/data/path", "no_such_file", expected, received, closest(path, names))

    def _names(self) -> list[str]:
        """The paths that may be named; the first ones of very many."""
        found = (file.relative_to(self._folder).as_posix() for file in self._folder.rglob("*"))
        return sorted(islice((name for name in found if self._wrong(name) is None), MAX_NAMES))
