"""Files in a folder that running processes change."""

import os
from pathlib import Path


def paths_in(folder: Path, pattern: str = "*") -> list[Path]:
    """The folders and files in a folder, at any depth, whose path ends as the pattern says.

    Unlike `Path.rglob` it passes over a folder that is removed meanwhile.
    """
    return [
        path
        for parent, folders, files in os.walk(folder)
        for name in (*folders, *files)
        if (path := Path(parent) / name).match(pattern)
    ]
