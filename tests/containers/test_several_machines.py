"""A stack without workers on one machine, and workers on another, on a network of their own."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from ampclient import Client
from tests.containers.conftest import (
    PASSWORDS,
    SERVER_ADDRESS,
    STACK_ADDRESS_FOR_WORKERS,
    create_token,
    in_words,
)
from tests.containers.jobs import (
    DIGITS,
    ENDLESS,
    OpenStream,
    checkpoints,
    container_of,
    has_step,
    running_worker,
)
from tests.machines import working_on
from tests.waiting import DEADLINE_S, wait_until

S3 = {
    "AMPCORE_ARTIFACTS_URL": "s3://ampcore/artifacts",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "aws4secret0123456789",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL_S3": f"http://{STACK_ADDRESS_FOR_WORKERS}:9000",
}


@pytest.fixture(scope="module")
def object_store(machines) -> Iterator[None]:
    """An S3 service on the first machine, with the bucket `ampcore`."""
    command = [sys.executable, "-m", "moto.server", "-H", STACK_ADDRESS_FOR_WORKERS, "-p", "9000"]
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    stack = machines["stack"]
    with subprocess.Popen(stack.command(*command), **output) as server:
        with working_on(stack), httpx.Client(base_url=S3["AWS_ENDPOINT_URL_S3"]) as http:
            wait_until(lambda: has_bucket(http))
        yield
        server.terminate()


def has_bucket(http: httpx.Client) -> bool:
    """Create the bucket, as soon as the service answers."""
    try:
        return http.put("/ampcore").is_success
    except httpx.ConnectError:
        return False


@pytest.fixture(scope="module")
def lan(new_project, object_store):
    """The stack, with two servers and no worker."""
    project = new_project(
        "lan",
        COMPOSE_FILE="docker-compose.yml:docker-compose.private.yml",
        AMPCORE_PRIVATE_ADDRESS=STACK_ADDRESS_FOR_WORKERS,
        AMPCORE_WORKERS="0",
        AMPCORE_PORT="8471",
        AMPCORE_FRONT_SUBNET="172.31.241.0/24",
        **S3,
    )
    project.up()
    yield project
    project.down(volumes=True)


@pytest.fixture(scope="module")
def workers(new_project, lan):
    """Two workers on the other machine."""
    postgres, redis = PASSWORDS.values()
    address = STACK_ADDRESS_FOR_WORKERS
    project = new_project(
        "workers",
        "workers",
        COMPOSE_FILE="docker-compose.worker.yml",
        AMPCORE_DATABASE_URL=f"postgresql://ampcore:{postgres}@{address}:5432/ampcore",
        AMPCORE_REDIS_URL=f"redis://:{redis}@{address}:6379/0",
        AMPCORE_WORKERS="2",
        **S3,
    )
    project.compose("up", "--detach", "--no-deps")
    yield project
    project.down(volumes=True)


@pytest.fixture(scope="module")
def client(lan, machines):
    """A client on the first machine, where the proxy's port is published."""
    token = create_token(lan.container("server"), "bob")
    with working_on(machines["stack"]), Client("http://127.0.0.1:8471", token) as client:
        yield client


def test_the_workers_of_the_other_machine_are_online(client, workers):
    assert len(wait_until(lambda: online(client))) == 2


def online(client):
    found = [worker for worker in client.workers.list() if worker.state == "online"]
    return found if len(found) == 2 else None


def test_a_job_runs_there_and_its_files_are_in_the_object_store(client, workers, tmp_path):
    job = client.jobs.submit(DIGITS)
    stream = OpenStream(job)
    stream.check_complete()
    assert job.refresh().state == "succeeded"
    assert (tmp_path / "attempt-1/model.keras") in job.download(to=tmp_path)


def test_a_job_moves_to_the_second_worker_when_the_first_is_killed(client, workers):
    wait_until(lambda: online(client))
    job = client.jobs.submit(ENDLESS)
    wait_until(lambda: has_step(job, 100) and checkpoints(job))
    worker = running_worker(client, job)
    container_of(workers, worker).kill()
    wait_until(lambda: len(job.attempts()) == 2 and running_worker(client, job))
    second = job.attempts()[-1]
    assert second.worker_id != worker.id
    assert wait_until(lambda: job.attempts()[-1].first_step)
    job.cancel().wait()


def test_only_the_databases_are_reachable_at_the_private_address(machines, lan):
    for port, address, is_open in (
        (5432, STACK_ADDRESS_FOR_WORKERS, True),
        (6379, STACK_ADDRESS_FOR_WORKERS, True),
        (8471, STACK_ADDRESS_FOR_WORKERS, False),
        (5432, SERVER_ADDRESS, False),
        (6379, SERVER_ADDRESS, False),
    ):
        machine = machines["workers" if address == STACK_ADDRESS_FOR_WORKERS else "user"]
        with working_on(machine):
            assert accepts_connections(address, port) is is_open, (address, port)


def accepts_connections(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=DEADLINE_S):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    "missing", ["AMPCORE_DATABASE_URL", "AMPCORE_REDIS_URL", "AMPCORE_ARTIFACTS_URL"]
)
def test_a_missing_address_is_named(new_project, workers, missing):
    settings = {name: value for name, value in workers.settings.items() if name != missing}
    del settings["AMPCORE_LEASE_S"]
    project = new_project("unset", "workers", **settings)
    said = in_words(project.compose("up", "--detach", check=False))
    assert f"{missing}" in said
    assert "set it in .env (see .env.example)" in said
