"""Ends what a test run leaves, however it ends: its processes, network namespaces and files.

`python -I tests/cleanup.py FOLDER` waits beside pytest until that has ended, also by SIGKILL. Then
it ends the processes that inherited the folder as a variable, and removes the folder.
"""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import psutil

RUN_FOLDER: Final = "PYTEST_RUN_FOLDER"
"""The variable with the folder of a run, which all of its processes inherit."""
NAMESPACES: Final = "namespaces"
"""The folder in it with an empty file for each network namespace."""
CGROUPS: Final = Path("/sys/fs/cgroup")
INTERRUPTED: Final = b"interrupted\n"
KEEP_FILES: Final = b"keep files\n"
GRACE_S: Final = 10.0
"""How long processes may take to end after SIGTERM: PostgreSQL releases its shared memory."""


def processes_of(folder: Path) -> Iterator[psutil.Process]:
    """The living processes that inherited the folder of a run, or run in a Slurm of it."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # it has ended, or is another user's
            is_zombie = process.status() == psutil.STATUS_ZOMBIE
            is_of_run = process.environ().get(RUN_FOLDER) == str(folder)
            if not is_zombie and (is_of_run or _is_step_of_slurm(process, folder)):
                yield process


def _is_step_of_slurm(process: psutil.Process, folder: Path) -> bool:
    """Whether it is a slurmstepd of a Slurm in the folder: it outlives the slurmd that starts it.

    All that it inherits is where Slurm's configuration is. It writes its title over the variables,
    so psutil finds none.
    """
    if process.name() != "slurmstepd":
        return False
    variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    return any(entry.startswith(f"SLURM_CONF={folder}/".encode()) for entry in variables)


def _family(folder: Path) -> set[psutil.Process]:
    """The processes of a run with their descendants, whose environment may be empty or hidden."""
    family = set(processes_of(folder))
    for process in tuple(family):
        with contextlib.suppress(psutil.Error):
            family |= {*process.children(recursive=True)}
    return family


def _end(processes: Iterable[psutil.Process]) -> None:
    """Ask processes to end, then kill those that remain."""
    living = [process for process in processes if process.is_running()]
    for process in living:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    for process in psutil.wait_procs(living, timeout=GRACE_S)[1]:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _remove_namespaces(folder: Path) -> None:
    for file in (folder / NAMESPACES).glob("*"):
        subprocess.run(["ip", "netns", "delete", file.name], check=False)  # noqa: S607 - in PATH


def _remove_cgroups() -> None:
    """Remove the cgroups of trainers whose worker was killed (worker.trainer.memory_cgroups)."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            for cgroup in (CGROUPS / controllers / path.lstrip("/")).glob("ampcore-trainer-*"):
                if not Path("/proc", cgroup.name.split("-")[2]).exists():
                    with contextlib.suppress(OSError):
                        cgroup.rmdir()


def _wait_and_clean(folder: Path) -> None:
    processes: set[psutil.Process] = set()
    keeps_files = False
    for message in sys.stdin.buffer:  # it ends with pytest
        if message == INTERRUPTED:
            processes |= _family(folder)  # while they have their parents
        keeps_files = keeps_files or message == KEEP_FILES
    _end(processes | _family(folder))
    _end(_family(folder))  # those that were started meanwhile
    _remove_namespaces(folder)
    _remove_cgroups()
    if not keeps_files:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _wait_and_clean(Path(sys.argv[1]))
