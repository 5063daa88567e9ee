"""Made-up telemetry: what a trainer tells of its steps, and jobs that have told it."""

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ampcore.series import StepBlock
from ampcore.series.codec import encode
from ampcore.series.frames import Frame, FrameReader, FrameType, write_frame
from ampcore.spec import JobSpec
from server.compact import Compactor
from store import attempts, jobs
from store.database import Database
from worker.meter import Meter
from worker.patience import Lease, PatientWrites
from worker.relay import Relay
from worker.spool import Spool

SPEC = JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}})
LEASE_S = 3600.0
DEADLINE_S = 600.0
GROWTH_INTERVAL = 2000
SKIP_EVERY = GROWTH_INTERVAL + 3
"""The scale is doubled after so many good steps, and the third step with it overflows."""
LARGE_BLOCK = 4096


def block(first_step: int, count: int) -> StepBlock:
    """Steps as a trainer might make them, with all digits of their floats."""
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
    """The first so many steps of a job, block by block."""
    for first_step in range(0, steps, size):
        yield block(first_step, min(size, steps - first_step))


def skipped_between(start: int, end: int) -> list[int]:
    """Which steps s with `start` ≤ s < `end` are skipped."""
    first = -(-(start + 1) // SKIP_EVERY) * SKIP_EVERY - 1
    return list(range(first, end, SKIP_EVERY))


def told(steps: StepBlock) -> Frame:
    """A block as the trainer hands it over and its supervisor reads it from the pipe."""
    facts = steps.facts
    names = ("loss", "loss_scale", "grad_norm", "learning_rate")
    header = {
        "first_step": steps.first_step,
        "count": len(steps),
        "facts": vars(facts),
        "last": {name: float(steps[name][-1]) for name in names}
        | {"examples_per_s": steps.examples_per_s},
        "scale_health": "healthy",
    }
    pipe = io.BytesIO()
    write_frame(pipe, Frame(FrameType.STEPS, header, encode(steps)))
    [frame] = FrameReader().feed(pipe.getvalue())
    return frame


def claimed(database: Database) -> Lease:
    """A new job that a worker has taken."""
    with database.write() as session:
        job_id = jobs.create(session, SPEC, jobs.Origin("default")).id
        job = attempts.claim(session, job_id, "benchmark", lease_s=LEASE_S)
        assert job is not None
        return Lease(job_id, job.attempt, LEASE_S)


@contextmanager
def relaying(
    database: Database,
    lease: Lease,
    total_steps: int,
    committed: Callable[[], object] = lambda: None,
) -> Iterator[Relay]:
    """The job runs, and this is its worker's relay; all that it was told is stored afterwards."""
    writes = PatientWrites(database, threading.Event(), committed=committed)
    relay = Relay(writes, lease, Meter(), lambda _event: None, Spool())
    relay.start()
    try:
        relay.carry([Frame(FrameType.RUNNING, {"total_steps": total_steps, "first_step": 0})])
        stored(relay)
        yield relay
    finally:
        relay.close()
    if relay.error or relay.is_fenced:
        raise RuntimeError("the relay could not store all that it was told") from relay.error


def stored(relay: Relay) -> None:
    """Wait until all that the relay was told is committed."""
    if not relay.spool.drained(DEADLINE_S):
        raise TimeoutError(f"not stored after {DEADLINE_S:g} s")


def ended(database: Database, lease: Lease) -> None:
    """The job has succeeded, and all of its steps are merged."""
    with database.write() as session:
        assert attempts.mark_succeeded(session, lease.job_id, lease.attempt, {}) is not None
    compactor = Compactor(database)
    while compactor.compact():
        pass


def filled(database: Database, steps: int, size: int = LARGE_BLOCK) -> str:
    """The id of a job that has told of so many steps and ended, with all of them merged."""
    lease = claimed(database)
    with relaying(database, lease, steps) as relay:
        for each in blocks(steps, size):
            relay.spool.wait_for_room(DEADLINE_S)
            relay.carry([told(each)])
    ended(database, lease)
    return lease.job_id
