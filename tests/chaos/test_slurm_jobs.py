"""Jobs on a real Slurm with two nodes: whatever ends there, each step is trained once."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ampclient import Job
from ampspec.jobs import State
from tests.chaos import xdist_groups
from tests.chaos.cluster import Cluster
from tests.chaos.reference_run import (
    HOLD_STEP,
    SPEC,
    TINY,
    assert_equals_reference,
    outcomes,
    reached,
    scripted_reference,
)
from tests.chaos.slurm_service import SlurmService, slurm_service
from tests.slurm import SlurmCluster, slurm_cluster
from tests.waiting import DEADLINE_S, wait_until

pytestmark = [xdist_groups.SLURM, pytest.mark.slow, pytest.mark.needs("slurm")]

CPUS = 4
"""Of the two nodes together; each job takes one."""


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """Two nodes."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder)) as two:
        yield two


@pytest.fixture
def service(cluster: Cluster, slurm: SlurmCluster, tmp_path: Path) -> Iterator[SlurmService]:
    """A stack with one scheduler and no workers of its own."""
    with slurm_service(cluster, slurm, tmp_path) as service:
        yield service


def submit_held(service: SlurmService, **runtime: Any) -> Job:
    """Submit a job, and wait until it is held behind a recorded checkpoint."""
    spec = {**SPEC, "runtime": {**SPEC["runtime"], **runtime}}
    job = service.cluster.submit_paused_at(spec)
    wait_until_held(service, job)
    return job


def wait_until_held(service: SlurmService, job: Job) -> None:
    wait_until(
        lambda: job.refresh().state == State.RUNNING and reached(job, HOLD_STEP),
        "the job trains",
        show=service.state,
    )


def assert_finishes(service: SlurmService, job: Job) -> Job:
    """Let a job train to its end; it equals the undisturbed run."""
    job = service.cluster.finish(job)
    assert_equals_reference(job, scripted_reference())
    wait_until(
        lambda: all(row.ended_at is not None for row in service.allocations(job)),
        "its allocations have ended",
        show=service.state,
    )
    assert set(service.submissions().values()) <= {1}
    return job


def test_a_job_waits_and_trains_in_an_allocation_of_its_own(service: SlurmService) -> None:
    """Mechanism: the scheduler submits it, and its worker claims it by its id."""
    service.cluster.control.hold(HOLD_STEP)
    jobs = [service.cluster.client.jobs.submit(SPEC) for _ in range(CPUS + 1)]
    for job in jobs[:CPUS]:
        wait_until_held(service, job)
    waiting = service.current(jobs[-1])
    pending = f"Slurm job {waiting.external_id} is PENDING (Resources)"
    wait_until(
        lambda: str(jobs[-1].refresh().waiting).startswith(pending),
        "the reason of Slurm is shown",
        show=lambda: (jobs[-1].refresh().waiting, service.state()),
    )
    for job in [assert_finishes(service, job) for job in jobs]:
        [allocation] = service.allocations(job)
        assert (allocation.state, allocation.attempt) == ("COMPLETED", 1)
        assert allocation.nodes in ("n1", "n2")
        assert outcomes(job) == [("succeeded", None)]


@pytest.mark.parametrize("command", ["requeue", "scancel"])
def test_an_allocation_that_a_person_ends_is_continued_exactly(
    service: SlurmService, command: str
) -> None:
    """Mechanism: Slurm's SIGTERM drains the worker, which saves a checkpoint."""
    job = submit_held(service)
    first = service.current(job)
    assert first.external_id is not None
    if command == "requeue":
        service.scontrol("requeue", first.external_id)
    else:
        service.slurm.run("scancel", first.external_id)
    wait_until(lambda: len(job.attempts()) == 2, "the next attempt starts", show=service.state)
    job = assert_finishes(service, job)
    assert [outcome for outcome, _ in outcomes(job)] == ["requeued", "succeeded"]
    assert job.attempts()[1].first_step == HOLD_STEP, "steps were trained twice"
    names = [row.name for row in service.allocations(job)]
    assert len(names) == (1 if command == "requeue" else 2)


def test_a_job_of_a_higher_partition_preempts_one_which_continues_after_it(
    service: SlurmService,
) -> None:
    """Mechanism: Slurm requeues the allocation, and tells its worker with SIGTERM."""
    job = submit_held(service)
    urgent = service.slurm.run(
        *("sbatch", "--parsable", "--partition=urgent", "--nodes=2", "--exclusive"),
        *("--output=/dev/null", "--wrap=sleep infinity"),
    ).stdout.strip()
    wait_until(lambda: job.refresh().state == State.QUEUED, "it is queued", show=service.state)
    wait_until(
        lambda: service.current(job).state == "PENDING", "the scheduler sees it", show=service.state
    )
    service.slurm.run("scancel", urgent)
    wait_until(lambda: len(job.attempts()) == 2, "the next attempt starts", show=service.state)
    job = assert_finishes(service, job)
    assert [outcome for outcome, _ in outcomes(job)] == ["requeued", "succeeded"]
    assert len(service.allocations(job)) == 1


def test_the_time_limit_of_an_allocation_is_no_limit_of_the_job(service: SlurmService) -> None:
    """Mechanism: Slurm warns the worker with SIGUSR1, half a minute before (`warning_s`)."""
    job = submit_held(service)
    first = service.current(job)
    service.scontrol("update", f"JobId={first.external_id}", "TimeLimit=1")
    wait_until(lambda: len(job.attempts()) == 2, "the next attempt starts", show=service.state)
    job = assert_finishes(service, job)
    assert [outcome for outcome, _ in outcomes(job)] == ["requeued", "succeeded"]
    assert job.attempts()[1].first_step == HOLD_STEP, "steps were trained twice"
    assert [row.state for row in service.allocations(job)] == ["COMPLETED", "COMPLETED"]


def test_cancelling_and_pausing_a_job_ends_its_allocation(service: SlurmService) -> None:
    """Mechanism: the worker ends its attempt as any worker does, and then itself."""
    cancelled, paused = submit_held(service), submit_held(service)
    cancelled.cancel()
    paused.pause()
    for job, state in ((cancelled, State.CANCELLED), (paused, State.PAUSED)):
        wait_until(lambda job=job, state=state: job.refresh().state == state, str(state))
        wait_until(
            lambda job=job: service.current(job).ended_at is not None,
            "its allocation has ended",
            show=service.state,
        )
    paused.resume()
    job = assert_finishes(service, paused)
    assert [row.attempt for row in service.allocations(job)] == [1, 2]


def test_a_job_that_is_cancelled_while_slurm_lets_it_wait_is_cancelled_there(
    service: SlurmService,
) -> None:
    """Mechanism: the scheduler cancels what is no longer needed."""
    service.scontrol("update", "PartitionName=main", "State=DOWN")
    try:
        job = service.cluster.client.jobs.submit(TINY)
        service.current(job)
        wait_until(
            lambda: "(PartitionDown)" in str(job.refresh().waiting),
            show=lambda: job.refresh().waiting,
        )
        job.cancel()
        wait_until(
            lambda: service.current(job).state == "CANCELLED",
            "the scheduler cancels it",
            show=service.state,
        )
    finally:
        service.scontrol("update", "PartitionName=main", "State=UP")


def test_a_node_that_fails_while_its_worker_lives_gives_the_job_no_second_one(
    service: SlurmService,
) -> None:
    """Mechanism: a worker claims the job only if no other one has it.

    Slurm takes the node for lost and starts the allocation again on the other one, but the first
    worker still trains: nothing has told it to end.
    """
    job = submit_held(service)
    first = service.current(job)
    wait_until(lambda: service.current(job).nodes is not None, "its node is recorded")
    node = str(service.current(job).nodes)
    worker = service.worker(job)
    service.slurm.nodes[node].kill()
    service.scontrol("update", f"NodeName={node}", "State=DOWN", "Reason=test")
    try:
        wait_until(
            lambda: (
                service.current(job).state in ("PENDING", "RUNNING")
                and service.current(job).nodes != node
            ),
            "it is started again elsewhere",
            show=service.state,
        )
        assert worker.is_running()
        job = assert_finishes(service, job)
    finally:
        service.slurm.nodes[node].start()
        service.scontrol("update", f"NodeName={node}", "State=RESUME")
        service.slurm.wait_ready()
    assert outcomes(job) == [("succeeded", None)]
    assert [row.external_id for row in service.allocations(job)] == [first.external_id]


def test_a_job_that_slurm_has_lost_is_submitted_again(service: SlurmService) -> None:
    """Mechanism: an allocation that Slurm no longer lists has ended as LOST."""
    job = submit_held(service)
    service.slurm.controller.kill()
    service.slurm.controller.start("-c")  # it forgets all jobs, and kills what still runs
    wait_until(lambda: service.current(job).state == "LOST", "it is lost", show=service.state)
    service.cluster.expire_lease(job)
    service.cluster.start_next_attempt(job)
    wait_until(lambda: len(job.attempts()) == 2, "the next attempt starts", show=service.state)
    job = assert_finishes(service, job)
    assert [row.state for row in service.allocations(job)] == ["LOST", "COMPLETED"]


def test_two_ranks_train_on_two_nodes_and_continue_when_one_is_killed(
    service: SlurmService,
) -> None:
    """Mechanism: the server reserves the ranks on the workers of the allocation."""
    ranks = {"workers": 2, "devices": 1, "exchange": {"timeout_s": 3600}, "max_attempts": 5}
    job = submit_held(service, **ranks)
    wait_until(lambda: service.current(job).nodes == "n[1-2]", "both nodes are recorded")
    service.cluster.rank(job, 1).kill()
    wait_until(lambda: job.refresh().attempt == 2 or job.refresh().state == State.QUEUED)
    service.cluster.end_retry_delay(job)
    wait_until(lambda: len(job.attempts()) == 2, "the next attempt starts", show=service.state)
    job = assert_finishes(service, job)
    [(_, reason), (outcome, _)] = outcomes(job)
    assert (reason, outcome) == ("process_killed", "succeeded")
    assert [row.attempt for row in service.allocations(job)] == [1, 2]


def test_a_study_of_nine_jobs_ends_right_whatever_is_killed_meanwhile(
    service: SlurmService,
) -> None:
    """Mechanisms: those of the tests above, and leases of schedulers, workers and servers."""
    cluster = service.cluster
    cluster.control.hold(HOLD_STEP)
    study = cluster.client.studies.precision(
        {**SPEC, "labels": {"script": "train_to_accuracy"}},
        seeds=3,
        policies=["mixed_float16", "mixed_bfloat16"],
    )
    jobs = wait_until(lambda: held_jobs(service, CPUS), "four jobs train", show=service.state)

    # Two schedulers, of which one is killed, and the controller, which does not answer meanwhile.
    service.start_scheduler()
    service.schedulers[0].kill()
    service.slurm.controller.kill()
    [api] = cluster.apis
    api.kill()
    api.start()
    api.wait_ready()
    service.slurm.controller.start()
    for node in service.slurm.nodes.values():  # their workers go on
        node.kill()
        node.start()

    killed, requeued, cancelled, crashed = jobs
    crash_worker(service, killed)
    service.scontrol("requeue", str(service.current(requeued).external_id))
    service.slurm.run("scancel", str(service.current(cancelled).external_id))
    cluster.trainer(crashed).kill()
    for job in (killed, crashed):
        cluster.start_next_attempt(job)
    service.start_scheduler()
    cluster.control.release()
    ended = cluster.client.studies.wait(study, timeout_s=DEADLINE_S)
    assert (ended.state, ended.message) == ("succeeded", None)
    assert len(ended.jobs) == 9
    for entry in ended.jobs:
        job = cluster.client.jobs.get(str(entry.job))
        assert job.steps()["step"].tolist() == list(range(SPEC["train"]["steps"]))
    assert all(len(job.attempts()) == 2 for job in jobs)
    assert set(service.submissions().values()) == {1}
    assert all(scheduler.running for scheduler in service.schedulers[1:])


def held_jobs(service: SlurmService, count: int) -> list[Job] | None:
    """The jobs of the study that are held, once there are so many."""
    running = service.cluster.client.jobs.list(state=State.RUNNING)
    held = [job for job in running if job.step is not None and job.step >= HOLD_STEP]
    return held if len(held) == count else None


def crash_worker(service: SlurmService, job: Job) -> None:
    """Kill the worker of a job, and let its lease expire."""
    worker = service.worker(job)
    children = worker.children(recursive=True)
    worker.send_signal(signal.SIGKILL)
    psutil.wait_procs([worker, *children], timeout=DEADLINE_S)
    service.cluster.expire_lease(job)
