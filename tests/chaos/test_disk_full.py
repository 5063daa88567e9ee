"""A full disk when a checkpoint is due: the last good one stays, and training continues.

A limit on the file size, set on the running process, simulates the full disk: every write beyond
it fails as on a full disk (EFBIG instead of ENOSPC), without a mount.
"""

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ampclient import Job
from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.reference_run import (
    BLOCK_STEPS,
    HOLD_STEP,
    SPEC,
    RunResult,
    assert_equals_reference,
    checkpoints,
    saved_at,
    scripted_reference,
)
from tests.waiting import wait_until

FILE_LIMIT_BYTES = 4096
"""Less than the size of a checkpoint."""
TMPFS = Path("/dev/shm")


@xdist_groups.TENSORFLOW
def test_a_trainer_with_a_full_disk_keeps_its_last_checkpoint_and_continues(
    cluster: Cluster, reference_run: RunResult
) -> None:
    """Mechanism: a checkpoint that cannot be saved causes a warning.

    Checked: if ampcore/checkpoint/saver.py does not catch the error, the attempt fails.
    """
    # The limit of a process of the same user can be changed without any capability.
    cluster.ensure_workers(1, AMPCORE_TRAINER_ISOLATION="off")
    job = cluster.submit_paused_at(SPEC)
    cluster.wait_past_checkpoint(job)
    trainer = cluster.trainer(job)
    limit_files(trainer, FILE_LIMIT_BYTES)
    cluster.train_to_step(job, HOLD_STEP + 2 * BLOCK_STEPS)
    wait_until(lambda: warnings(job), "a warning says so")
    assert checkpoints(job), "the last good checkpoint is gone"
    assert saved_at(job)[-1] < HOLD_STEP, "the disk was not full"
    assert "Training continues" in warnings(job)[0]["message"]
    limit_files(trainer, resource.RLIM_INFINITY)  # there is room again
    cluster.train_to_step(job, HOLD_STEP + 4 * BLOCK_STEPS)
    wait_until(lambda: saved_at(job)[-1] > HOLD_STEP, "it saves again")
    job = cluster.finish(job)
    assert_equals_reference(job, reference_run)
    assert job.attempt == 1


@pytest.fixture
def other_filesystem() -> Iterator[Path]:
    """A folder on another file system, so that uploads copy the file."""
    folder = TMPFS / f"ampcore-chaos-{os.getpid()}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@xdist_groups.SCRIPTED
@pytest.mark.quick
@pytest.mark.needs("second file system")
def test_a_worker_with_a_full_storage_keeps_recorded_files_and_continues(
    cluster: Cluster, other_filesystem: Path
) -> None:
    """Mechanism: the uploader retries in the background and warns.

    Checked: if worker/transfer/artifact_uploader.py counts failures per file, no warning ever
    comes, because a newer checkpoint replaces the failing one.
    """
    cluster.ensure_workers(0)
    worker = cluster.worker(SCRIPTED, AMPCORE_SCRATCH_DIR=str(other_filesystem))
    job = cluster.submit_paused_at(SPEC)
    cluster.wait_past_checkpoint(job)
    process = psutil.Process(worker.pid)
    # Its log may exceed a small limit already, and later child processes inherit the limit.
    limit_files(process, max(FILE_LIMIT_BYTES, worker.log_file.stat().st_size + FILE_LIMIT_BYTES))
    cluster.train_to_step(job, HOLD_STEP + 2 * BLOCK_STEPS)
    wait_until(lambda: warnings(job), "a warning says so")
    assert saved_at(job)[-1] < HOLD_STEP
    limit_files(process, resource.RLIM_INFINITY)
    cluster.train_to_step(job, HOLD_STEP + 4 * BLOCK_STEPS)
    wait_until(lambda: saved_at(job)[-1] > HOLD_STEP, "it keeps them again")
    job = cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    assert job.attempt == 1
    assert worker.stop() == 0
    assert not list(other_filesystem.iterdir())


def limit_files(process: psutil.Process, size_bytes: int) -> None:
    """Limit the size of the files that the process writes."""
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (size_bytes, hard))


def warnings(job: Job) -> list[dict[str, str]]:
    """The warnings about files that could not be stored."""
    events = [event.data for event in job.events() if event.type == "warning"]
    return [data for data in events if data["code"] in ("checkpoint_failed", "artifact_failed")]
