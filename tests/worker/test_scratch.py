import subprocess
import sys
from pathlib import Path

import pytest

from worker.scratch import Scratch

OTHER = """
import sys
from pathlib import Path
from worker.scratch import Scratch
scratch = Scratch(Path(sys.argv[1]), "other")
scratch.open()
with scratch.folder("j", 1) as folder:
    folder.mkdir()
    (folder / "left").touch()
    print("there", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> subprocess.Popen[bytes]:
    """Another worker, in the midst of an attempt."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    return process


def test_a_folder_is_gone_with_its_attempt(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, "w")
    scratch.open()
    with scratch.folder("j", 1) as folder:
        folder.mkdir()
        (folder / "checkpoint").touch()
    assert not folder.exists()
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_dead_worker_has_left_is_removed(
    tmp_path: Path, other: subprocess.Popen[bytes]
) -> None:
    other.kill()
    other.communicate()
    assert list(tmp_path.rglob("left"))
    scratch = Scratch(tmp_path, "w")
    scratch.open()
    assert not list(tmp_path.rglob("left"))
    assert not list(tmp_path.glob("other*"))
    scratch.close()


def test_what_a_living_worker_writes_stays(tmp_path: Path, other: subprocess.Popen[bytes]) -> None:
    scratch = Scratch(tmp_path, "w")
    scratch.open()
    scratch.close()
    assert len(list(tmp_path.rglob("left"))) == 1
    other.communicate()
