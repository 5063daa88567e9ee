"""A file with a JSON line for each row, from which an interrupted run goes on."""

import json
from pathlib import Path

from zoo.outcome import Row


class RowFile:
    """The rows that a file has, and those that are added.

    Args:
        path: The file; it may not exist yet. A last line that was not written to its end is
            removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        text = path.read_text() if path.exists() else ""
        complete = text[: text.rfind("\n") + 1]
        if complete != text:
            path.write_text(complete)
        rows = [Row.from_json(json.loads(line)) for line in complete.splitlines()]
        self.rows = {row.name: row for row in rows}
        """By the names of their models."""

    def add(self, row: Row) -> None:
        """Write a row."""
        with self._path.open("a") as file:
            file.write(json.dumps(row.to_json()) + "\n")
        self.rows[row.name] = row
