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
    assert not [process for process in psutil.process_iter() if str(folder) in _command(process)]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
