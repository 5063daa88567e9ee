"""Check that a spec's `data.path` names a file of data sets, or an allowed object of a store."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from ampspec.documents.problems import closest_match, format_value
from ampspec.documents.text import first_names
from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.references.object_url import ObjectUrl, is_url

FOLDERS: Final = ("csv", "images", "parquet", "tfrecord")
"""The kinds of data that may be a folder of files."""
MAX_NAMES: Final = 1000


class DataRoot:
    """The data that a path may name: files below one folder, objects below some prefixes.

    Args:
        folder: The folder of the data sets.
        prefixes: Those that the operator allows.
    """

    def __init__(self, folder: Path, prefixes: Sequence[ObjectUrl] = ()) -> None:
        self._folder, self._prefixes = folder, prefixes

    def check(self, spec: JobSpec) -> None:
        """Raise SpecValidationError if the spec's data path is not one in the folder."""
        path, folders = getattr(spec.data, "path", None), spec.data.kind in FOLDERS
        if path is not None and is_url(path):
            self._check_url(path)
        elif path and (wrong := self._wrong(path, folders=folders)) is not None:
            raise SpecValidationError([self._problem(path, wrong)])

    def _check_url(self, path: str) -> None:
        if not ObjectUrl.parse(path).is_below(self._prefixes):
            allowed = " or ".join(f"{prefix}/" for prefix in self._prefixes)
            expected = (
                f"an object below {allowed}"
                if allowed
                else "a path or a dataset: this server allows no object stores"
            )
            problem = Problem("/data/path", "url_not_allowed", expected, format_value(path))
            raise SpecValidationError([problem])

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
        expected = (
            "a path, relative to the server's datasets folder, of a file in it "
            f"(it holds {first_names(names) or 'no files yet'})"
        )
        received = format_value(path) + wrong
        return Problem("/data/path", "no_such_file", expected, received, closest_match(path, names))

    def _names(self) -> list[str]:
        """The valid paths; only the first ones if there are many."""
        paths = (file.relative_to(self._folder).as_posix() for file in self._folder.rglob("*"))
        return sorted(islice((name for name in paths if self._wrong(name) is None), MAX_NAMES))
