"""kill -9 of one container of each service, while a job runs that somebody watches."""

import pytest

from tests.containers.jobs import (
    DIGITS,
    ENDLESS,
    OpenStream,
    checkpoints,
    container_of,
    has_step,
    running_worker,
)
from tests.waiting import wait_until


@pytest.fixture
def job(client):
    job = client.jobs.submit(ENDLESS)
    wait_until(lambda: has_step(job, 100))
    return job


def test_a_job_goes_on_after_the_container_of_its_worker_is_killed(stack, client, job):
    stream = OpenStream(job)
    stream.wait_for_more()
    wait_until(lambda: checkpoints(job))
    first = running_worker(client, job)
    container_of(stack, first).kill()
    wait_until(lambda: any(block.attempt == 2 for block in stream.blocks))
    second = running_worker(client, job)
    assert second.id != first.id
    resumed = next(block for block in stream.blocks if block.attempt == 2)
    assert resumed.first_step > 0
    job.cancel()
    stream.check_complete()
    # Podman starts it again, as its restart policy says, and it serves jobs.
    wait_until(lambda: len([w for w in client.workers.list() if w.state == "online"]) == 2)


@pytest.mark.parametrize("number", [1, 2])
def test_streams_go_on_after_a_server_is_killed(stack, job, number):
    streams = [OpenStream(job) for _ in range(4)]
    for stream in streams:
        stream.wait_for_more()
    server = stack.container("server", number)
    server.kill()
    for stream in streams:
        stream.wait_for_more(4)
    job.cancel()
    for stream in streams:
        stream.check_complete()
    wait_until(server.healthy)


@pytest.mark.parametrize("service", ["redis", "postgres"])
def test_a_running_job_and_its_streams_survive_the_kill_of(stack, client, job, service):
    stream = OpenStream(job)
    stream.wait_for_more()
    killed = stack.container(service)
    killed.kill()
    wait_until(killed.healthy)
    stream.wait_for_more(4)
    assert running_worker(client, job)
    assert [attempt.attempt for attempt in job.attempts()] == [1]
    job.cancel()
    stream.check_complete()
    another = client.jobs.submit(DIGITS)  # by a new message
    assert another.wait().state == "succeeded"


def test_after_a_kill_of_everything_at_once_the_result_is_that_of_an_undisturbed_job(stack, client):
    undisturbed = client.jobs.submit(DIGITS).wait()
    spec = {**DIGITS, "name": "disturbed"}
    spec["train"] = {**DIGITS["train"], "checkpoint_every_s": 1e-6}
    disturbed = client.jobs.submit(spec)
    wait_until(lambda: has_step(disturbed, 50))
    for container in stack.containers():
        if container.running:
            container.kill()
    for service in ("postgres", "redis", "server", "proxy"):
        for container in stack.containers(service):
            wait_until(container.healthy, show=container.logs)
    disturbed = disturbed.wait()
    assert disturbed.state == undisturbed.state == "succeeded"
    assert disturbed.summary.weights_digest == undisturbed.summary.weights_digest
