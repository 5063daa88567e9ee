"""How long a job takes from the claim to its first step on an idle worker: one JSON line.

A standby child has TensorFlow imported. The times are the database's: when the attempt began, and
when its first block of steps was written.
"""

import argparse
import statistics

from compare import report
from sqlalchemy import func, select
from startup_latency import SPEC, stack, wait_until

from store.clock import seconds_since
from store.database import Database
from store.tables import Attempt, Job, StepBlockRow

STARTS = 3
JOBS = 7


def waits_s(database: Database, job_id: str) -> tuple[float, float]:
    """Seconds from the post to the claim, and from the claim to the first stored step."""
    first = select(func.min(StepBlockRow.created_at)).where(StepBlockRow.job_id == job_id)
    statement = (
        select(
            seconds_since(Job.created_at, until=Attempt.started_at),
            seconds_since(Attempt.started_at, until=first.scalar_subquery()),
        )
        .join(Attempt, Attempt.job_id == Job.id)
        .where(Job.id == job_id)
    )
    with database.read() as session:
        to_claim_s, to_step_s = session.execute(statement).one()
    return float(to_claim_s), float(to_step_s)


def main() -> None:
    """Measure, and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    waits = []
    for _ in range(STARTS):
        with stack() as running:
            database = Database(f"sqlite:///{running.data / 'ampcore.sqlite'}")
            for _ in range(JOBS):
                wait_until(running.is_standby_idle)
                job = running.client.jobs.submit(SPEC).wait(timeout_s=120)
                waits.append(waits_s(database, job.id))
            database.close()
    to_claim, to_step = ([one[part] for one in waits] for part in (0, 1))
    report(
        "claim_to_first_step",
        goal_s=0.5,
        claim_to_first_step_s=round(statistics.median(to_step), 3),
        claim_to_first_step_worst_s=round(max(to_step), 3),
        post_to_claim_s=round(statistics.median(to_claim), 3),
        post_to_claim_worst_s=round(max(to_claim), 3),
        jobs=len(waits),
    )


if __name__ == "__main__":
    main()
