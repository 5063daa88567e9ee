"""Sends a run of another tool to a server as a tracked run."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from ampclient.errors import ImportFailed
from ampclient.imports.foreign_run import ForeignRun
from ampclient.tracking.run import TrackedRun
from ampclient.tracking.run_folder import RUN_FILE

FLUSH_TIMEOUT_S: Final = 600.0
MAX_NAME: Final = 200
MAX_CONFIG: Final = 256
LABEL: Final = "imported_from"


class ImportedRun(NamedTuple):
    """What was imported of a run."""

    id: str
    name: str
    url: str
    steps: int
    columns: dict[str, str]
    """The column that each scalar has become."""
    left_out: dict[str, int]
    """What was not imported, such as pictures and histograms, and how often there was any."""


def send(track: Callable[..., TrackedRun], run: ForeignRun) -> ImportedRun | None:
    """Create a tracked run with the rows of another tool's; None if it has no scalars.

    Args:
        track: `client.runs.track`.
        run: The run.

    Raises:
        AmpcoreError: The server has refused it.
        ImportFailed: The server could not be reached for ten minutes.
    """
    if not run.scalars:
        return None
    with tempfile.TemporaryDirectory(prefix="ampcore-import-") as parent:
        # A folder keeps what is sent more slowly than it is read.
        folder = Path(parent, "run")
        tracked = track(
            run.name[:MAX_NAME],
            labels={**run.labels, LABEL: run.origin[:256]},
            config=dict(list(run.config.items())[:MAX_CONFIG]),
            folder=folder,
            flush_timeout_s=FLUSH_TIMEOUT_S,
        ).watch(usage_every_s=None)
        step_count = 0
        try:
            for step, row in run.rows():
                columns: dict[str, Any] = {"step_time_s": 0.0, **row}
                tracked.log(step, **columns)
                step_count += 1
        finally:
            tracked.finish(run.state)
        if json.loads((folder / RUN_FILE).read_text("utf-8"))["ended"] is None:
            raise ImportFailed(
                f"The run {run.name!r} is not complete on the server: delete it, and import it "
                "again."
            )
        return ImportedRun(
            tracked.id or "",
            run.name,
            tracked.url or "",
            step_count,
            run.columns(),
            run.left_out(),
        )
