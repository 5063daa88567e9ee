"""Tests that start processes and never end, for `test_run_folder.py`, which ends their run.

`pytest tests/endless_run.py` writes the ids of the processes into the file of ENDLESS_RUN_REPORT.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import create_engine, text

REPORT = "ENDLESS_RUN_REPORT"
HANG = "import threading; threading.Event().wait()"
DAEMON = f"""
import os, subprocess, sys
command = [sys.executable, "-c", {HANG!r}]
child = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
print(child.pid, flush=True)
"""
"""Its child has another parent as soon as the daemon has ended."""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {HANG!r}], env={{}}, start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""
"""Its child inherits nothing."""


def write_pids(name: str, pids: list[int]) -> None:
    """Write process ids at once; the reader finds all of them, or no file."""
    report = Path(os.environ[REPORT])
    unfinished = report / f"{name}.unfinished"
    unfinished.write_text("\n".join(map(str, [os.getpid(), *pids])))
    unfinished.rename(report / f"{name}.pids")


def test_with_processes() -> None:
    child = subprocess.Popen([sys.executable, "-c", HANG])
    daemon = subprocess.run(
        [sys.executable, "-c", DAEMON], stdout=subprocess.PIPE, text=True, check=True
    )
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [child.pid, int(daemon.stdout), parent.pid, int(parent.stdout.readline())]
    write_pids("processes", pids)
    threading.Event().wait()


def test_with_servers(postgres_server: str, private_redis: Any) -> None:
    engine = create_engine(postgres_server)
    with engine.connect() as connection:
        folder = Path(connection.execute(text("SHOW data_directory")).scalar_one())
    postmaster = psutil.Process(int((folder / "postmaster.pid").read_text().split()[0]))
    pids = [process.pid for process in (postmaster, *postmaster.children())]
    write_pids("servers", [*pids, private_redis.pid])
    threading.Event().wait()
