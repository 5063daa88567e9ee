"""How many steps a second are taken in from one job, all columns, each batch committed.

One JSON line, on SQLite and on PostgreSQL. Real relays with real spools write blocks as a trainer
hands them over: made into frames beforehand; and with that counted in, although another process
does it. Both once more while the server's compactor is busy in the same process. MLflow's
log_batch takes turns. Then the bytes that a step takes at rest.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from contest import report, rotated
from sqlalchemy import func, select
from under_load.at_rest import at_rest
from under_load.lines import Talk
from under_load.parts import DATABASES, surroundings
from under_load.telemetry import blocks, claimed, ended, relaying, stored, told
from under_load.tracking import add_peers, tracking

from ampcore.series import COLUMNS
from ampcore.series.frames import Frame
from server.compact import Compactor
from store.database import Database
from store.tables import StepBlockRow

SIZES = (250, 1000)


@dataclass(frozen=True)
class Variant:
    """A way of taking steps in."""

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


def taken_in(
    database: Database, before: Sequence[Frame], given: Iterable[Frame], *, merges: bool
) -> tuple[float, float]:
    """Steps a second that are given to a job, and how many are merged a second meanwhile.

    Those told `before` wait for the compactor, so that it is busy from the first moment on.
    """
    lease = claimed(database)
    with relaying(database, lease, 0) as relay, ExitStack() as stack:
        relay.carry(before)
        stored(relay)
        known = steps_of(database, lease.job_id)
        stack.enter_context(compacting(database) if merges else nullcontext())
        begin = time.perf_counter()
        relay.carry(list(given))
        stored(relay)
        seconds = time.perf_counter() - begin
        steps = steps_of(database, lease.job_id) - known
        merged = steps_of(database, lease.job_id, StepBlockRow.marks.is_not(None))
    ended(database, lease)
    return steps / seconds, merged / seconds


def steps_of(database: Database, job_id: str, *where: Any) -> int:
    """How many steps of a job are stored."""
    count = func.sum(StepBlockRow.end_step - StepBlockRow.first_step)
    with database.read() as session:
        return int(session.scalar(select(count).where(StepBlockRow.job_id == job_id, *where)) or 0)


def log(peer: Talk, steps: int, turn: int) -> float:
    """Steps a second that MLflow takes in."""
    about = {"run": "intake", "first_step": turn * steps, "metrics": list(COLUMNS), "skips": []}
    answer = peer.ask("log", steps=steps, batch=SIZES[0], **about)
    return answer["steps"] / answer["seconds"]


def main() -> None:
    """Measure in turns and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000, help="in a round of ours")
    parser.add_argument("--peer-steps", type=int, default=5000, help="in a round of MLflow's")
    parser.add_argument("--rest-steps", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    add_peers(parser)
    asked = parser.parse_args()
    variants = [Variant(*it) for it in itertools.product(DATABASES, SIZES, *[(False, True)] * 2)]
    rates: dict[str, list[float]] = {str(one): [] for one in variants} | {"mlflow": []}
    merged: dict[str, list[float]] = {str(one): [] for one in variants if one.merges}
    with ExitStack() as stack:
        places = {kind: stack.enter_context(surroundings(kind)).database for kind in DATABASES}
        peer = stack.enter_context(tracking(asked.peers))
        empty = peer.ask("size")["bytes"]
        made = {size: list(blocks(asked.steps * 3 // 2, size)) for size in SIZES}
        frames = {size: [told(block) for block in made[size]] for size in SIZES}
        for turn in range(asked.rounds):
            rates["mlflow"].append(log(peer, asked.peer_steps, turn))
            for one in rotated(variants, turn):
                own = frames[one.size]
                waiting = len(own) // 3
                given = map(told, made[one.size][waiting:]) if one.encodes else own[waiting:]
                database = places[one.kind]
                rate, merges = taken_in(database, own[:waiting], given, merges=one.merges)
                rates[str(one)].append(rate)
                if one.merges:
                    merged[str(one)].append(merges)
        full, about = peer.ask("size"), peer.ask("about")
    medians = {name: statistics.median(of) for name, of in rates.items()}
    report(
        "intake",
        goal_per_s=400_000,
        steps_per_s={name: round(median) for name, median in medians.items()},
        steps_per_s_of_rounds={name: [round(rate) for rate in of] for name, of in rates.items()},
        merged_per_s_meanwhile={name: round(statistics.median(of)) for name, of in merged.items()},
        over_mlflow={name: round(median / medians["mlflow"]) for name, median in medians.items()},
        goal_bytes_per_step=16,
        at_rest={kind: at_rest(kind, asked.rest_steps, SIZES[0]) for kind in DATABASES},
        mlflow_bytes_per_step=round((full["bytes"] - empty) / full["steps"]),
        steps_of_a_round=asked.steps,
        versions=about,
    )


if __name__ == "__main__":
    main()
