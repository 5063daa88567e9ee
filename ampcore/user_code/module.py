"""Imports the function of a bundle, and explains the errors of its code."""

import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ampcore.allocation_errors import out_of_memory
from ampspec.errors import CodeFailed, TrainingError

TERMINAL_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
KERAS_PREFIX: Final = "Exception encountered when calling"
"""The first line of the error of a layer's call; the layer's own message follows."""
_FOLDERS: set[Path] = set()
"""The folders of bundles that this process has imported from."""


def load_function(folder: Path, entry: str) -> Callable[..., Any]:
    """The function that an entry point such as `net:build` names.

    The folder becomes the first of `sys.path`, and stays there: a process trains one bundle.

    Raises:
        CodeFailed: There is no such module or function, or importing it raises an error.
    """
    folder = folder.resolve()
    name, _, attribute = entry.partition(":")
    _forget_other_bundles(folder)
    _check_names(folder)
    _FOLDERS.add(folder)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    _forget_listings(folder)
    with explained_errors(folder):
        module = importlib.import_module(name)
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).resolve().is_relative_to(folder):
        raise CodeFailed(
            f"model.build: expected a module of the bundle; received {name!r}, which is a module "
            "of another library. Rename it."
        )
    function = getattr(module, attribute, None)
    if not callable(function):
        raise CodeFailed(
            f"model.build: expected a function {attribute!r} in {name!r}; "
            f"received {'nothing of this name' if function is None else type(function).__name__}."
        )
    builder: Callable[..., Any] = function
    return builder


def _check_names(folder: Path) -> None:
    """Raise CodeFailed for a module that would hide one of Python, or of a library in use."""
    for path in sorted(folder.iterdir()):
        name = path.stem if path.suffix == ".py" else path.name
        if path.suffix != ".py" and not (path / "__init__.py").is_file():
            continue
        loaded = getattr(sys.modules.get(name), "__file__", None)
        is_other = loaded is not None and not Path(loaded).resolve().is_relative_to(folder)
        if name in sys.stdlib_module_names or is_other:
            raise CodeFailed(
                f"{path.name}: expected a name that no other module has; received {name!r}, which "
                "is a module of Python or of a library. Rename it."
            )


def _forget_other_bundles(folder: Path) -> None:
    """Forget the modules that earlier bundles of this process had, and their folders."""
    for other_folder in _FOLDERS - {folder}:
        _FOLDERS.discard(other_folder)
        sys.path[:] = [path for path in sys.path if path != str(other_folder)]
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file is not None and file.startswith(f"{other_folder}{os.sep}"):
                del sys.modules[name]


def _forget_listings(folder: Path) -> None:
    """Have Python list the folder and those in it again.

    `importlib.invalidate_caches` would have it list the folders of all libraries, too.
    """
    for path in list(sys.path_importer_cache):
        if f"{path}{os.sep}".startswith(f"{folder}{os.sep}"):
            del sys.path_importer_cache[path]


@contextmanager
def explained_errors(folder: Path) -> Iterator[None]:
    """Turn every error of a bundle's code into CodeFailed."""
    try:
        yield
    except TrainingError:
        raise
    except (Exception, SystemExit) as error:
        full = out_of_memory(error, _place(error, folder.resolve()))
        raise full or explain(error, folder) or CodeFailed(last_line(error)) from error


def explain(error: BaseException, folder: Path) -> CodeFailed | None:
    """The error as one of the bundle's code: its file, line and message; None if it is not."""
    where = _place(error, folder.resolve())
    return CodeFailed(f"{where}: {last_line(error)}") if where is not None else None


def _place(error: BaseException, folder: Path) -> str | None:
    """The innermost line of the bundle's code in a traceback: `net.py:14 in build`."""
    if isinstance(error, SyntaxError) and (file := _relative(error.filename or "", folder)):
        return f"{file}:{error.lineno}"
    place = None
    seen: BaseException | None = error
    while seen is not None and place is None:
        for frame in traceback.extract_tb(seen.__traceback__):
            if (file := _relative(frame.filename, folder)) is not None:
                place = f"{file}:{frame.lineno} in {frame.name}"
        seen = seen.__cause__ or seen.__context__
    return place


def _relative(file: str, folder: Path) -> str | None:
    path = Path(file)
    if not path.is_absolute() or not path.resolve().is_relative_to(folder):
        return None
    return path.resolve().relative_to(folder).as_posix()


def last_line(error: BaseException) -> str:
    """The type and the first line of the message, as the last line of a traceback has them."""
    text = TERMINAL_STYLE.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(KERAS_PREFIX):
        del lines[0]
    message = lines[0] if lines else "no message"
    return f"{type(error).__name__}: {message[:500]}"
