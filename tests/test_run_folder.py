"""An interrupted run of the tests leaves nothing, however it is interrupted."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import cleanup
from tests.endless_run import REPORT
from tests.processes import is_gone
from tests.waiting import DEADLINE_S, wait_until

ROOT = Path(__file__).parents[1]


@pytest.fixture
def parent_folder() -> Iterator[Path]:
    """A folder that PostgreSQL can enter: started by root, it runs as another user."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        signal.SIGKILL,
    ],
)
def test_an_interrupted_run_leaves_no_process_and_no_file(
    number: signal.Signals, parent_folder: Path
) -> None:
    """The signal reaches pytest's controller alone, while both of its processes run a test."""
    report = parent_folder / "report"
    report.mkdir()
    options = {"PYTEST_ADDOPTS": "", REPORT: str(report), "TMPDIR": str(parent_folder)}
    environment = {**os.environ, **options}
    command = ["-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "tests/endless_run.py"]
    with (parent_folder / "output.log").open("wb") as log:
        controller = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=log
        )
    files = [report / f"{name}.pids" for name in ("processes", "servers")]
    wait_until(
        lambda: all(file.exists() for file in files) or controller.poll() is not None,
        "both tests have started their processes",
        show=(parent_folder / "output.log").read_text,
    )
    pids = [int(word) for file in files for word in file.read_text().split()]
    [folder] = parent_folder.glob("ampcore-tests-*")
    assert len(pids) >= 8
    assert not any(map(is_gone, pids))
    os.kill(controller.pid, number)
    controller.wait(DEADLINE_S)
    wait_until(lambda: all(map(is_gone, pids)), "every process has ended")
    wait_until(lambda: not folder.exists(), "the files are removed")
    assert list(cleanup.processes_of(folder)) == []
    wait_until(
        lambda: not any(str(folder) in _command(process) for process in psutil.process_iter()),
        "the process that cleaned up has ended, too",
    )


def test_a_step_of_slurm_is_a_process_of_the_run(tmp_path: Path) -> None:
    """It is started by a daemon, which passes on nothing else, and outlives that."""
    program = tmp_path / "slurmstepd"
    program.write_text("#!/bin/sh\nread line\n")  # waits; the kernel calls it after its file
    program.chmod(0o755)
    for folder, expected in ((tmp_path, 1), (tmp_path.parent / "another-run", 0)):
        environ = {"SLURM_CONF": str(folder / "slurm-a" / "slurm.conf")}
        with subprocess.Popen([program], env=environ, stdin=subprocess.PIPE) as process:
            try:
                wait_until(lambda pid=process.pid: psutil.Process(pid).name() == program.name)
                assert len([*cleanup.processes_of(tmp_path)]) == expected
            finally:
                process.kill()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
