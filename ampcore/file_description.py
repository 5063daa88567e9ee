"""`python -m ampcore.file_description FILE CACHE`: describe a file of data that may be hostile.

The process gives up its rights before it opens the file: it can write only into the folder CACHE,
read nothing but the file and its own program, and use limited memory and CPU time. It prints JSON.
The server runs it for each upload, because it must not parse such files itself.
"""

import json
import math
import os
import resource
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from ampcore.isolation import files, hide_memory, imported_files, landlock

MEMORY_BYTES: Final = 2 * 2**30
CPU_S: Final = 30
CACHE_FILE_BYTES: Final = 16 * 2**30
"""The largest file that a reader may write into its cache."""
MAX_OUTPUT_BYTES: Final = 2**20
MAX_COLUMNS: Final = 1000
MAX_MESSAGE: Final = 500
READERS: Final = "ampcore.formats.description"
UNDESCRIBED: Final[dict[str, Any]] = {"state": "undescribed"}


def describe_file(file: Path, describe: Callable[[Path], Any]) -> dict[str, Any]:
    """What `describe` finds in the file, as JSON values: `state`, and the fields of a version."""
    from ampcore.errors import InvalidData

    try:
        found = describe(file)
    except InvalidData as error:
        return {"state": "invalid", "message": str(error)[:MAX_MESSAGE]}
    except MemoryError:
        message = f"Reading the file takes more than {MEMORY_BYTES} bytes of memory."
        return {"state": "undescribed", "message": message}
    columns = [_column(column) for column in found.columns[:MAX_COLUMNS]]
    pictures = [getattr(picture, "png", picture) for picture in found.pictures or ()]
    preview = {"rows": _json_value(found.preview), "pictures": pictures}
    described = {"state": "described", "kind": found.kind, "rows": found.rows, "columns": columns}
    return _fitted({**described, "preview": preview})


def _column(column: Any) -> dict[str, Any]:
    values = column.model_dump() if isinstance(column, BaseModel) else dict(column)
    if values.get("classes"):
        values["classes"] = [getattr(one, "name", None) or one["name"] for one in values["classes"]]
    return {name: _json_value(value) for name, value in values.items() if value is not None}


def _json_value(value: Any) -> Any:
    """The value as JSON: non-finite numbers and unknown types become text."""
    match value:
        case dict():
            return {str(key): _json_value(item) for key, item in value.items()}
        case list() | tuple():
            return [_json_value(item) for item in value]
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case None | bool() | int() | float() | str():
            return value
    item = getattr(value, "item", None)  # a scalar of NumPy
    return _json_value(item()) if callable(item) else str(value)


def _fitted(description: dict[str, Any]) -> dict[str, Any]:
    """The description without the parts of the preview that make it too long."""
    for part in ("pictures", "rows"):
        if len(json.dumps(description)) > MAX_OUTPUT_BYTES:
            description["preview"][part] = []
    if len(json.dumps(description)) > MAX_OUTPUT_BYTES:
        description["columns"] = []
    return description


def _give_up_rights(file: Path, cache: Path) -> None:
    """Keep the rights to read the file and the program, and to write into the cache, with limits.

    Memory, files and CPU time are limited on every kernel; access to files on those with Landlock.
    """
    for limit, most in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_DATA, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, CACHE_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    if landlock.abi() > 0:
        landlock.restrict(
            readable=[*files.system_files(), *imported_files(), file],
            usable=[*files.devices(), Path(f"/proc/{os.getpid()}")],
            writable=[cache],
        )
    hide_memory()


def main(arguments: list[str]) -> None:
    """Print the description of the file in the first argument, with the second as its cache."""
    file, cache = (Path(argument).absolute() for argument in arguments)
    description = UNDESCRIBED
    if find_spec(READERS) is not None:
        _give_up_rights(file, cache)
        # Imported after that: the libraries of the readers start threads.
        describe = partial(import_module(READERS).describe, cache=cache)
        description = describe_file(file, describe)
    sys.stdout.write(json.dumps(description))


if __name__ == "__main__":
    main(sys.argv[1:])
