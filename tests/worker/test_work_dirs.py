import subprocess
import sys
from pathlib import Path

import pytest

from worker.work_dirs import WorkDirs

OTHER = """
import sys
from pathlib import Path
from worker.work_dirs import WorkDirs
work_dirs = WorkDirs(Path(sys.argv[1]), "other")
work_dirs.open()
with work_dirs.attempt_dir("j", 1) as folder:
    folder.mkdir()
    (folder / "left").touch()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def worker_process(tmp_path: Path) -> subprocess.Popen[bytes]:
    """Another worker process during an attempt."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_folder_is_removed_after_its_attempt(tmp_path: Path) -> None:
    work_dirs = WorkDirs(tmp_path, "w")
    work_dirs.open()
    with work_dirs.attempt_dir("j", 1) as folder:
        folder.mkdir()
        (folder / "checkpoint").touch()
    assert not folder.exists()
    work_dirs.close()
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_dead_worker_is_removed(
    tmp_path: Path, worker_process: subprocess.Popen[bytes]
) -> None:
    worker_process.kill()
    worker_process.communicate()
    assert list(tmp_path.rglob("left"))
    work_dirs = WorkDirs(tmp_path, "w")
    work_dirs.open()
    assert not list(tmp_path.rglob("left"))
    assert not list(tmp_path.glob("other*"))
    work_dirs.close()


def test_the_folder_of_a_running_worker_stays(
    tmp_path: Path, worker_process: subprocess.Popen[bytes]
) -> None:
    work_dirs = WorkDirs(tmp_path, "w")
    work_dirs.open()
    work_dirs.close()
    assert len(list(tmp_path.rglob("left"))) == 1
    worker_process.communicate()
