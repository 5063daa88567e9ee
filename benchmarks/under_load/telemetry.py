"""Synthetic telemetry: blocks and frames as of a trainer, and jobs that have stored them."""

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ampspec.jobs import JobSpec
from ampspec.telemetry import StepBlock
from ampspec.telemetry.frames import Frame, FrameReader, FrameType, write_frame
from ampspec.telemetry.steps.codec import encode
from server.background.compactor import Compactor
from store.database import Database
from store.jobs import attempts, jobs
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.attempt.write_buffer import WriteBuffer
from worker.database_retry import Lease, RetryingDatabase
from worker.usage import SlotMetrics

SPEC = JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}})
LEASE_S = 3600.0
DEADLINE_S = 600.0
GROWTH_INTERVAL = 2000
SKIP_EVERY = GROWTH_INTERVAL + 3
"""The scale doubles after GROWTH_INTERVAL finite steps, and the third step with it overflows."""
LARGE_BLOCK = 4096


def block(first_step: int, count: int) -> StepBlock:
    """Random steps as of a trainer, with floats of full precision."""
    random = np.random.default_rng(first_step)
    steps = np.arange(first_step, first_step + count)
    place = steps % SKIP_EVERY
    skipped = place == SKIP_EVERY - 1
    noise = random.random((2, count))
    columns = {
        "loss": 0.1 + 2.2 * np.exp(-steps / 5000) + 0.05 * noise[0],
        "loss_scale": np.where(place < GROWTH_INTERVAL, 2.0**15, 2.0**16),
        "skipped": skipped,
        "grad_norm": np.where(skipped, np.inf, 1 + noise[1]),
        "learning_rate": 5e-4 * (1 + np.cos(np.pi * (steps % 10**6) / 10**6)),
        "step_time_s": np.full(count, 0.001 + 0.0001 * random.random()),  # they share its mean
        "examples": np.full(count, 128),
    }
    return StepBlock(first_step, columns)


def blocks(steps: int, size: int) -> Iterator[StepBlock]:
    """The first `steps` steps of a job in blocks of `size`."""
    for first_step in range(0, steps, size):
        yield block(first_step, min(size, steps - first_step))


def skipped_between(start: int, end: int) -> list[int]:
    """Which steps s with `start` ≤ s < `end` are skipped."""
    first = -(-(start + 1) // SKIP_EVERY) * SKIP_EVERY - 1
    return list(range(first, end, SKIP_EVERY))


def steps_frame(steps: StepBlock) -> Frame:
    """A block as the frame that a worker stores, once it has validated and encoded it."""
    stats = steps.stats
    names = ("loss", "loss_scale", "grad_norm", "learning_rate")
    header = {
        "first_step": steps.first_step,
        "count": len(steps),
        "stats": vars(stats),
        "last": {name: float(steps[name][-1]) for name in names}
        | {"examples_per_s": steps.examples_per_s},
        "scale_health": "healthy",
    }
    pipe = io.BytesIO()
    write_frame(pipe, Frame(FrameType.STEPS, header, encode(steps)))
    [frame] = FrameReader().feed(pipe.getvalue())
    return frame


def claim_new_job(database: Database) -> Lease:
    """Create and claim a job."""
    with database.write() as session:
        job_id = jobs.create(session, SPEC, jobs.Origin("default")).id
        job = attempts.claim(session, job_id, "benchmark", lease_s=LEASE_S)
        assert job is not None
        return Lease(job_id, job.attempt, LEASE_S)


@contextmanager
def writing_telemetry(
    database: Database,
    lease: Lease,
    total_steps: int,
    on_commit: Callable[[], object] = lambda: None,
) -> Iterator[TelemetryWriter]:
    """Run a job's telemetry writer; everything enqueued is stored at the exit."""
    retrying_database = RetryingDatabase(database, threading.Event(), on_commit=on_commit)
    writer = TelemetryWriter(
        retrying_database, lease, SlotMetrics(), lambda _event: None, WriteBuffer()
    )
    writer.start()
    try:
        writer.enqueue_frames(
            [Frame(FrameType.RUNNING, {"total_steps": total_steps, "first_step": 0})]
        )
        wait_until_stored(writer)
        yield writer
    finally:
        writer.close()
    if writer.error or writer.is_fenced:
        raise RuntimeError("the telemetry could not be stored") from writer.error


def wait_until_stored(writer: TelemetryWriter) -> None:
    """Wait until everything enqueued is committed."""
    if not writer.buffer.wait_until_empty(DEADLINE_S):
        raise TimeoutError(f"not stored after {DEADLINE_S:g} s")


def finish_job(database: Database, lease: Lease) -> None:
    """Mark the job as succeeded, and merge all of its steps."""
    with database.write() as session:
        assert attempts.mark_succeeded(session, lease.job_id, lease.attempt, {}) is not None
    compactor = Compactor(database)
    while compactor.compact():
        pass


def create_finished_job(database: Database, steps: int, size: int = LARGE_BLOCK) -> str:
    """Create a finished job with merged steps; returns its id."""
    lease = claim_new_job(database)
    with writing_telemetry(database, lease, steps) as writer:
        for each in blocks(steps, size):
            writer.buffer.wait_for_room(DEADLINE_S)
            writer.enqueue_frames([steps_frame(each)])
    finish_job(database, lease)
    return lease.job_id
