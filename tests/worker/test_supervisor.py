import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ampcore.series.frames import FrameType
from worker.standby import Standby
from worker.supervisor import TrainerProcess, environment

PROGRAM = (sys.executable, str(Path(__file__).with_name("scripted_trainer.py")))
JOB = {"attempt": 1}


def test_secrets_stay_out_of_the_trainers_environment() -> None:
    inherited = {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "0",
        "AMPCORE_DATABASE_URL": "postgresql://secret",
        "AMPCORE_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert environment(inherited) == {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0"}


def test_frames_end_with_the_process(tmp_path: Path) -> None:
    process = TrainerProcess(tmp_path / "standby.log", (*PROGRAM, "good"))
    process.assign(JOB, tmp_path / "job" / "output.log")
    frames = [frame for batch in process.batches(timeout_s=10) for frame in batch]
    assert process.end(grace_s=10) == 0
    assert [frame.type for frame in frames] == [
        FrameType.READY,
        FrameType.RUNNING,
        FrameType.STEPS,
        FrameType.STEPS,
        FrameType.SUCCEEDED,
    ]


def test_the_log_moves_to_the_job_and_goes_on_there(tmp_path: Path) -> None:
    process = TrainerProcess(tmp_path / "standby.log", (*PROGRAM, "crash"))
    process.assign(JOB, tmp_path / "job" / "output.log")
    list(process.batches(timeout_s=10))
    process.end(grace_s=10)
    assert not (tmp_path / "standby.log").exists()
    assert process.log_tail() == "the last words"


def test_a_batch_that_does_not_come_in_time_is_empty(tmp_path: Path) -> None:
    process = TrainerProcess(tmp_path / "standby.log", (*PROGRAM, "good"))
    (ready,) = process.next_batch(timeout_s=10)
    assert ready.type is FrameType.READY
    assert process.next_batch(timeout_s=0.05) == []
    process.end(grace_s=0)


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[Standby]:
    standby = Standby(tmp_path, (*PROGRAM, "good"))
    yield standby
    standby.close()


def test_a_prepared_process_is_given_out_once(standby: Standby) -> None:
    standby.prepare()
    standby.prepare()
    taken = [standby.take(), standby.take()]
    assert all(process.is_alive for process in taken)
    assert taken[0].pid != taken[1].pid
    for process in taken:
        process.end(grace_s=0)


def test_a_standby_that_died_is_replaced(
    standby: Standby, wait_until: Callable[..., Any], tmp_path: Path
) -> None:
    standby.prepare()
    (first,) = wait_until(scripted_children)  # its command line shows a moment after exec
    first.kill()
    wait_until(lambda: first.status() == psutil.STATUS_ZOMBIE)
    second = standby.take()
    assert second.is_alive
    assert list(tmp_path.glob("trainer-*.log")) == [second.log_file]
    second.end(grace_s=0)


def test_a_standby_reports_the_hardware_it_has_found(
    standby: Standby, wait_until: Callable[..., None]
) -> None:
    assert standby.hardware() is None
    standby.prepare()
    wait_until(lambda: standby.hardware() == {"device": "script"})


def test_a_standby_that_cannot_start_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    Standby(tmp_path / "file").prepare()
    assert "no trainer can stand by" in caplog.text


def test_a_spec_of_any_size_is_handed_over_without_waiting(tmp_path: Path) -> None:
    sleeping = (sys.executable, "-c", "import time; time.sleep(60)")
    process = TrainerProcess(tmp_path / "log", sleeping)
    process.assign({"labels": "x" * 900_000}, tmp_path / "job" / "output.log")
    assert process.is_alive
    process.end(grace_s=0)


def test_closing_leaves_no_process_and_no_log(standby: Standby, tmp_path: Path) -> None:
    standby.prepare()
    standby.close()
    assert scripted_children() == []
    assert list(tmp_path.glob("trainer-*.log")) == []


def scripted_children() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [child for child in children if "scripted_trainer" in " ".join(child.cmdline())]
