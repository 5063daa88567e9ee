"""Runs the checks of each model in a process of its own, with limits of time and memory."""

import json
import multiprocessing
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree

from tensorflow.python.eager import context

from zoo.architecture import Architecture
from zoo.checks import check_architecture
from zoo.outcome import Outcome, Row

GROUP = 8
"""The models that one process loads again."""


def run_rows(
    selection: Sequence[Architecture], folder: Path, *, limit_s: float, limit_bytes: int
) -> Iterator[Row]:
    """The row of each model, in groups.

    Args:
        selection: The architectures.
        folder: For saved models and checkpoints; it is empty again at the end.
        limit_s: The seconds that the checks of a model may take.
        limit_bytes: The memory that they may take.
    """
    for begin in range(0, len(selection), GROUP):
        rows: dict[str, Row] = {}
        for architecture in selection[begin : begin + GROUP]:
            row = _row(architecture, folder, limit_s, limit_bytes)
            rows[row.name] = row
            states = {check: outcome.status for check, outcome in row.outcomes.items()}
            print(f"{row.name} {row.seconds:.0f} s {states}", file=sys.stderr, flush=True)
        _compare_saved_models(rows, folder, limit_s)
        for row in rows.values():
            rmtree(folder / row.name, ignore_errors=True)
            yield row


def _row(architecture: Architecture, folder: Path, limit_s: float, limit_bytes: int) -> Row:
    if architecture.module and find_spec(architecture.module) is None:
        row = Row(architecture.name, architecture.source)
        row.not_run = f"{architecture.module} is not installed"
        return row
    work = folder / architecture.name
    work.mkdir(parents=True)
    if context.context()._context_handle is not None:
        # Its threads would be missing in a fork, which would wait for them for ever.
        raise RuntimeError("a module of the zoo has run an operation while it was imported")
    # Forked: importing TensorFlow takes longer than most rows.
    process = multiprocessing.get_context("fork").Process(
        target=_check, args=(architecture, work, limit_bytes)
    )
    process.start()
    process.join(limit_s)
    ended = f"exit status {process.exitcode}"
    if process.exitcode is None:
        process.kill()
        process.join()
        ended = f"it took longer than {limit_s:.0f} s"
    row = _read_row(work / "row.json") or Row(architecture.name, architecture.source)
    missing = [check for check in architecture.checks if check not in row.outcomes]
    for check in missing:
        row.outcomes[check] = Outcome("failed", "an earlier check ended the process")
    for outcome in row.outcomes.values():
        if outcome.detail == UNFINISHED:
            outcome.detail = f"{UNFINISHED}: {ended}"
    return row


UNFINISHED = "the process ended during the check"


def _check(architecture: Architecture, folder: Path, limit_bytes: int) -> None:
    """Make the checks, and write the row after each of them."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def write(row: Row) -> None:
        path = folder / "row.json"
        part = path.with_suffix(".part")
        part.write_text(json.dumps(row.to_json()))
        part.replace(path)

    check_architecture(architecture, folder, write)


def _read_row(path: Path) -> Row | None:
    return Row.from_json(json.loads(path.read_text())) if path.exists() else None


def _compare_saved_models(rows: dict[str, Row], folder: Path, limit_s: float) -> None:
    """Load the models of a group in a process without ampcore; a crash costs one of them."""
    names = [
        name
        for name, row in rows.items()
        if "saved" in row.outcomes and row.outcomes["saved"].status == "passed"
    ]
    while names:
        process = subprocess.run(
            [sys.executable, "-m", "zoo.load_saved", *(str(folder / name) for name in names)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            timeout=limit_s * len(names),
            capture_output=True,
            text=True,
            check=False,
        )
        for line in process.stdout.splitlines():
            if line.startswith('{"name"'):
                document = json.loads(line)
                name = document.pop("name")
                rows[name].outcomes["saved"] = Outcome(**document)
                names.pop(0)
        if names:
            lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
            rows[names.pop(0)].outcomes["saved"] = Outcome("failed", lines[-1])
