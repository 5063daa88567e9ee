"""The disk is full when a checkpoint is due: the last good one stays, and training goes on.

A limit on the size of files, set on the process while it runs, stands for the full disk: every
write beyond it fails as one to a full disk does (EFBIG in place of ENOSPC), without a mount.
"""

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ampclient import Job
from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.runs import (
    BLOCK,
    HELD_AT,
    SPEC,
    Record,
    assert_undisturbed,
    checkpoints,
    saved_at,
    scripted,
)
from tests.waiting import wait_until

FULL_BYTES = 4096
"""Less than a checkpoint of the model takes."""
MEMORY = Path("/dev/shm")


@groups.REAL
def test_a_trainer_whose_disk_is_full_keeps_its_last_checkpoint_and_goes_on(
    cluster: Cluster, undisturbed: Record
) -> None:
    """The guard: a checkpoint that cannot be saved is a warning.

    Checked: where ampcore/train/checkpoints.py does not catch the error, it ends the attempt.
    """
    cluster.crew(1)
    job = cluster.submit_held(SPEC)
    cluster.past_a_checkpoint(job)
    trainer = cluster.trainer(job)
    limit_files(trainer, FULL_BYTES)
    cluster.train_to(job, HELD_AT + 2 * BLOCK)
    wait_until(lambda: warnings(job), "a warning says so")
    assert checkpoints(job), "the last good checkpoint is gone"
    assert saved_at(job)[-1] < HELD_AT, "the disk was not full"
    assert "The run goes on" in warnings(job)[0]["message"]
    limit_files(trainer, resource.RLIM_INFINITY)  # somebody has made room
    cluster.train_to(job, HELD_AT + 4 * BLOCK)
    wait_until(lambda: saved_at(job)[-1] > HELD_AT, "it saves again")
    job = cluster.finish(job)
    assert_undisturbed(job, undisturbed)
    assert job.attempt == 1


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another file system: from there a file is copied into the storage."""
    if not MEMORY.is_dir():
        pytest.skip("needs a second file system")
    folder = MEMORY / f"ampcore-chaos-{os.getpid()}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@groups.SCRIPTED
def test_a_worker_whose_storage_is_full_keeps_what_is_recorded_and_goes_on(
    cluster: Cluster, elsewhere: Path
) -> None:
    """The guard: the courier tries again, warns, and disturbs nobody.

    Checked: where worker/courier.py counts its tries for each file anew, no warning ever comes,
    since a newer checkpoint takes the place of the one that is tried.
    """
    cluster.crew(0)
    worker = cluster.worker(SCRIPTED, AMPCORE_SCRATCH_DIR=str(elsewhere))
    job = cluster.submit_held(SPEC)
    cluster.past_a_checkpoint(job)
    process = psutil.Process(worker.pid)
    # Its own log is longer than a small limit already, and children made from now on inherit.
    limit_files(process, max(FULL_BYTES, worker.log_file.stat().st_size + FULL_BYTES))
    cluster.train_to(job, HELD_AT + 2 * BLOCK)
    wait_until(lambda: warnings(job), "a warning says so")
    assert saved_at(job)[-1] < HELD_AT
    limit_files(process, resource.RLIM_INFINITY)
    cluster.train_to(job, HELD_AT + 4 * BLOCK)
    wait_until(lambda: saved_at(job)[-1] > HELD_AT, "it keeps them again")
    job = cluster.finish(job)
    assert_undisturbed(job, scripted())
    assert job.attempt == 1
    assert worker.stop() == 0
    assert not list(elsewhere.iterdir())


def limit_files(process: psutil.Process, size_bytes: int) -> None:
    """How large a file may become that the process writes."""
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (size_bytes, hard))


def warnings(job: Job) -> list[dict[str, str]]:
    """What the ledger says of files that could not be kept."""
    events = [event.data for event in job.events() if event.type == "warning"]
    return [data for data in events if data["code"] in ("checkpoint_failed", "artifact_failed")]
