"""`python -m server.child.inspect_upload FILE CACHE`: describe data that may be hostile.

The process gives up its rights before it opens the file: it can write only into the folder CACHE,
read nothing but the file and its own program, and use limited memory and CPU time. It prints JSON.
The server runs it for each upload, because it must not parse such files itself.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra.isolation import files, hide_memory, imported_files, landlock
from infra.isolation.process_limits import OutOfCpuTime, limit_resources

if TYPE_CHECKING:
    from ampdata.file_description import ColumnDescription, FileDescription

MEMORY_BYTES: Final = 2 * 2**30
CPU_S: Final = 30
CACHE_FILE_BYTES: Final = 16 * 2**30
"""The largest file that a reader may write into its cache."""
MAX_OUTPUT_BYTES: Final = 2**20
MAX_MESSAGE: Final = 500


def describe_file(file: Path, describe: Callable[[Path], "FileDescription"]) -> dict[str, Any]:
    """What `describe` finds in the file, as JSON values: `state`, and the fields of a version."""
    # Imported here, after the process has given up its rights.
    from ampspec.data.file_formats import MAX_DESCRIBED_COLUMNS
    from ampspec.errors import InvalidData

    try:
        description = describe(file)
    except InvalidData as error:
        return {"state": "invalid", "message": str(error)[:MAX_MESSAGE]}
    except MemoryError:
        return _undescribed(f"Describing the file takes more than {MEMORY_BYTES} bytes of memory.")
    except OutOfCpuTime:
        return _undescribed(f"Describing the file takes more than {CPU_S} s of CPU time.")
    except OSError as error:  # the disk is full, or the converted file is larger than allowed
        reason = error.strerror or type(error).__name__
        return _undescribed(f"Describing the file failed: {reason}.")
    preview = description.model_dump(mode="json", include={"preview"})["preview"]
    return _fitted(
        {
            "state": "described",
            "kind": description.kind,
            "rows": description.rows,
            "options": description.options,
            "splits": description.splits,
            "left_out": [part.model_dump() for part in description.left_out],
            "columns": [_column(column) for column in description.columns[:MAX_DESCRIBED_COLUMNS]],
            "preview": {
                "rows": preview,
                "pictures": [picture.png for picture in description.pictures],
            },
        }
    )


def _undescribed(message: str) -> dict[str, Any]:
    return {"state": "undescribed", "message": message}


def _column(column: "ColumnDescription") -> dict[str, Any]:
    """The column with the names of its classes."""
    values = column.model_dump(mode="json", exclude={"classes"})
    if column.classes is not None:
        values["classes"] = [label.name for label in column.classes]
    return values


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
    limit_resources(MEMORY_BYTES, CPU_S, CACHE_FILE_BYTES)
    if landlock.abi() > 0:
        landlock.restrict(
            readable=[
                *files.system_files(),
                *imported_files(),
                *files.package_folders("ampspec", "ampdata"),
                file,
            ],
            usable=[*files.devices(), Path(f"/proc/{os.getpid()}")],
            writable=[cache],
        )
    hide_memory()


def main(arguments: list[str]) -> None:
    """Print the description of the file in the first argument, with the second as its cache."""
    file, cache = (Path(argument).absolute() for argument in arguments)
    _give_up_rights(file, cache)
    # Arrow's own allocators reserve more than they use.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    # Imported after that: the libraries of the readers start threads.
    from ampdata.description import describe

    description = describe_file(file, lambda file: describe(file, cache=cache))
    sys.stdout.write(json.dumps(description))


if __name__ == "__main__":
    main(sys.argv[1:])
