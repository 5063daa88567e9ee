"""Checks or extracts the archive of a bundle in a process of its own, for servers and workers.

    python -m ampcore.user_code check FILE
    python -m ampcore.user_code extract FILE FOLDER

Prints a line of JSON: the `files` with `name` and `size_bytes`, or the `message` of what is wrong.
"""

import argparse
import json
import os
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ampcore.user_code import archive
from ampspec.errors import InvalidData

MAX_MEMORY_BYTES: Final = 2 * 2**30


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is 0 if the bundle is valid."""
    parser = argparse.ArgumentParser(prog="python -m ampcore.user_code", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("check", "extract"):
        command = commands.add_parser(name)
        command.add_argument("file", type=Path)
        if name == "extract":
            command.add_argument("folder", type=Path)
    namespace = parser.parse_args(arguments)
    os.umask(0o022)  # another user reads what is extracted
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        result: dict[str, Any] = {"files": _run(namespace)}
    except InvalidData as error:
        result = {"message": str(error)}
    sys.stdout.write(f"{json.dumps(result)}\n")
    return 0 if "files" in result else 1


def _run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    if arguments.command == "extract":
        archive.extract(arguments.file, arguments.folder)
        return []
    return [asdict(file) for file in archive.check(arguments.file)]


if __name__ == "__main__":
    raise SystemExit(main())
