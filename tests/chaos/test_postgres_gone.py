"""PostgreSQL restarts, is gone for longer than a lease, and loses answers; training goes on."""

from pathlib import Path

from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.members import Worker
from tests.chaos.runs import BLOCK, HELD_AT, SPEC, assert_undisturbed, reached, scripted
from tests.chaos.surroundings import LEASE_S
from tests.waiting import wait_until

pytestmark = groups.SCRIPTED


def test_training_goes_on_while_postgresql_restarts_and_is_gone_for_longer_than_a_lease(
    cluster: Cluster,
) -> None:
    """The guard: the worker's writes wait, and the reconciler lets the workers come back first.

    Checked: without the waiting in worker/patience.py the training ends with the database. That the
    reconciler waits for calm, tests/server/test_reconcile.py holds, where the clock is the test's.
    """
    [worker] = cluster.crew(1, SCRIPTED)
    job = cluster.submit_held(SPEC)
    wait_until(lambda: reached(job, HELD_AT), "the job runs")
    cluster.postgres.stop()
    cluster.postgres.start()
    cluster.train_to(job, HELD_AT + BLOCK)
    wait_until(lambda: not is_away(cluster), "the reconciler has its database again")
    # First the ways: nobody may look at the lease between its end and that of the server.
    cluster.ways.postgres.cut()
    cluster.api_ways.postgres.cut()
    cluster.lapse(job, 10 * LEASE_S)
    cluster.postgres.stop()
    before = saved(worker)
    cluster.control.hold(HELD_AT + 3 * BLOCK)
    wait_until(lambda: saved(worker) - before, "a checkpoint is made in the meantime")
    wait_until(lambda: is_away(cluster), "the reconciler misses its database")
    cluster.postgres.start()
    cluster.ways.postgres.restore()
    cluster.api_ways.postgres.restore()
    job = cluster.finish(job)
    assert_undisturbed(job, scripted())
    assert job.attempt == 1


def test_a_crash_of_postgresql_and_lost_answers_write_nothing_twice(cluster: Cluster) -> None:
    """The guard: a block is written behind exactly what was told before.

    Checked: without `Job.told == told` in store/ingest.py a repeated write fails the attempt.
    """
    cluster.crew(1, SCRIPTED)
    job = cluster.submit_held(SPEC)
    wait_until(lambda: reached(job, HELD_AT), "the job runs")
    for blocks in range(1, 6):
        cluster.ways.postgres.lose_answer_to(b"COMMIT")
        wait_until(cluster.ways.postgres.forgotten.is_set, "an answer is lost")
        cluster.train_to(job, HELD_AT + blocks * BLOCK)
    cluster.postgres.stop("immediate")
    cluster.postgres.start()
    job = cluster.finish(job)
    assert_undisturbed(job, scripted())
    assert job.attempt == 1


def is_away(cluster: Cluster) -> bool:
    """Whether the newest that the reconciler said of the database is that it is away."""
    text = cluster.apis[0].log_file.read_text(errors="replace")
    return text.rfind("looking for lost workers fails") > text.rfind("lost workers works again")


def saved(worker: Worker) -> set[Path]:
    """The checkpoints in the worker's scratch folder."""
    return set(worker.scratch.rglob("checkpoint-*.safetensors"))
