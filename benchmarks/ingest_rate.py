"""Steps per second that are stored from one job, all columns, each batch committed.

One JSON line, on SQLite and on PostgreSQL. Real telemetry writers and write buffers store blocks
from frames that were encoded beforehand, and with the encoding included, although the trainer
does that. Both again while the server's compactor is busy in the same process. MLflow's log_batch
alternates with them. Then the stored bytes per step.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from compare import report, rotated
from sqlalchemy import func, select
from under_load.json_process import JsonProcess
from under_load.mlflow_process import add_peers_option, mlflow_process
from under_load.service_processes import DATABASES, service_environment
from under_load.storage_size import storage_size
from under_load.telemetry import (
    blocks,
    claim_new_job,
    finish_job,
    steps_frame,
    wait_until_stored,
    writing_telemetry,
)

from ampspec.telemetry import COLUMN_DTYPES
from ampspec.telemetry.frames import Frame
from server.background.compactor import Compactor
from store.database import Database
from store.tables import StepBlockRow

SIZES = (250, 1000)


@dataclass(frozen=True)
class Variant:
    """A way to store steps."""

    kind: str
    size: int
    encodes: bool
    merges: bool

    def __str__(self) -> str:
        ways = "-encoding" * self.encodes + "-compactor" * self.merges
        return f"{self.kind}-{self.size}{ways}"


@contextmanager
def compacting(database: Database) -> Iterator[None]:
    """The compactor works as it does in a server."""
    compactor = Compactor(database)
    compactor.start()
    try:
        yield
    finally:
        compactor.stop()


def ingest_rate(
    database: Database, before: Sequence[Frame], given: Iterable[Frame], *, merges: bool
) -> tuple[float, float]:
    """Steps per second that a job stores, and steps per second that are merged meanwhile.

    The frames `before` are stored first, so that the compactor is busy from the start.
    """
    lease = claim_new_job(database)
    with writing_telemetry(database, lease, 0) as writer, ExitStack() as stack:
        writer.enqueue_frames(before)
        wait_until_stored(writer)
        known = steps_of(database, lease.job_id)
        stack.enter_context(compacting(database) if merges else nullcontext())
        begin = time.perf_counter()
        writer.enqueue_frames(list(given))
        wait_until_stored(writer)
        seconds = time.perf_counter() - begin
        steps = steps_of(database, lease.job_id) - known
        merged = steps_of(database, lease.job_id, StepBlockRow.merge_index.is_not(None))
    finish_job(database, lease)
    return steps / seconds, merged / seconds


def steps_of(database: Database, job_id: str, *where: Any) -> int:
    """The number of stored steps of a job."""
    count = func.sum(StepBlockRow.end_step - StepBlockRow.first_step)
    with database.read() as session:
        return int(session.scalar(select(count).where(StepBlockRow.job_id == job_id, *where)) or 0)


def log(peer: JsonProcess, steps: int, turn: int) -> float:
    """Steps per second that MLflow stores."""
    about = {
        "run": "ingest_rate",
        "first_step": turn * steps,
        "metrics": list(COLUMN_DTYPES),
        "skips": [],
    }
    answer = peer.call("log", steps=steps, batch=SIZES[0], **about)
    return answer["steps"] / answer["seconds"]


def main() -> None:
    """Measure alternately and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000, help="in a round of ours")
    parser.add_argument("--peer-steps", type=int, default=5000, help="in a round of MLflow's")
    parser.add_argument("--rest-steps", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    add_peers_option(parser)
    arguments = parser.parse_args()
    variants = [Variant(*it) for it in itertools.product(DATABASES, SIZES, *[(False, True)] * 2)]
    rates: dict[str, list[float]] = {str(one): [] for one in variants} | {"mlflow": []}
    merged: dict[str, list[float]] = {str(one): [] for one in variants if one.merges}
    with ExitStack() as stack:
        places = {
            kind: stack.enter_context(service_environment(kind)).database for kind in DATABASES
        }
        peer = stack.enter_context(mlflow_process(arguments.peers))
        empty = peer.call("size")["bytes"]
        made = {size: list(blocks(arguments.steps * 3 // 2, size)) for size in SIZES}
        frames = {size: [steps_frame(block) for block in made[size]] for size in SIZES}
        for turn in range(arguments.rounds):
            rates["mlflow"].append(log(peer, arguments.peer_steps, turn))
            for one in rotated(variants, turn):
                own = frames[one.size]
                waiting = len(own) // 3
                given = map(steps_frame, made[one.size][waiting:]) if one.encodes else own[waiting:]
                database = places[one.kind]
                rate, merges = ingest_rate(database, own[:waiting], given, merges=one.merges)
                rates[str(one)].append(rate)
                if one.merges:
                    merged[str(one)].append(merges)
        full, about = peer.call("size"), peer.call("about")
    medians = {name: statistics.median(of) for name, of in rates.items()}
    report(
        "ingest_rate",
        goal_per_s=400_000,
        steps_per_s={name: round(median) for name, median in medians.items()},
        steps_per_s_of_rounds={name: [round(rate) for rate in of] for name, of in rates.items()},
        merged_per_s_meanwhile={name: round(statistics.median(of)) for name, of in merged.items()},
        over_mlflow={name: round(median / medians["mlflow"]) for name, median in medians.items()},
        goal_bytes_per_step=16,
        storage_size={
            kind: storage_size(kind, arguments.rest_steps, SIZES[0]) for kind in DATABASES
        },
        mlflow_bytes_per_step=round((full["bytes"] - empty) / full["steps"]),
        steps_of_a_round=arguments.steps,
        versions=about,
    )


if __name__ == "__main__":
    main()
