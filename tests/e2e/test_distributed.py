"""API and worker as separate processes, with PostgreSQL and a Redis that is killed and restarts."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from ampclient import Client, ConnectionFailed
from ampspec.jobs import State
from tests.processes import free_port, has_ended
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("distributed")

SPEC = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}, "train": {"epochs": 2}}


@dataclass
class DistributedStack:
    """The processes, started one by one as on several machines."""

    redis: Any
    worker: subprocess.Popen[bytes]
    client: Client


@pytest.fixture(scope="module")
def distributed(
    new_postgres: Callable[[], str],
    tmp_path_factory: pytest.TempPathFactory,
    wait_until: Callable[..., Any],
) -> Iterator[DistributedStack]:
    from server.embedded.private_redis import start_redis

    folder = tmp_path_factory.mktemp("distributed")
    redis = start_redis(folder, folder / "redis.log")
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if "AMPCORE" not in name},
        "AMPCORE_DATABASE_URL": new_postgres(),
        "AMPCORE_REDIS_URL": redis.url,
        "AMPCORE_DATA_DIR": str(folder / "data"),
        "AMPCORE_PORT": str(port),
    }
    run(environment, "migrate")
    token = run(environment, "token", "create", "tests").split()[-1]
    with (folder / "output.log").open("wb") as output:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "server", command],
                env=environment,
                stdout=output,
                stderr=output,
            )
            for command in ("api", "worker")
        ]
    client = Client(f"http://127.0.0.1:{port}", token, timeout_s=DEADLINE_S)
    wait_until(lambda: is_reachable(client))
    all_processes = [psutil.Process(process.pid) for process in started]
    all_processes += [
        child for process in all_processes for child in process.children(recursive=True)
    ]
    yield DistributedStack(redis, started[1], client)
    client.close()
    for process in reversed(started):
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)
    redis.stop(grace_s=3)
    wait_until(lambda: all(map(has_ended, all_processes)), "all processes have ended")


def run(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "server", *arguments]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def is_reachable(client: Client) -> bool:
    try:
        return bool(client.version())
    except ConnectionFailed:
        return False


def test_a_job_submitted_while_redis_is_down_runs_when_redis_is_back(
    distributed: DistributedStack, wait_until: Callable[..., Any]
) -> None:
    assert distributed.client.jobs.submit(SPEC).wait(timeout_s=DEADLINE_S).state == State.SUCCEEDED
    os.kill(distributed.redis.pid, signal.SIGKILL)
    wait_until(lambda: not distributed.redis.running)
    jobs = [distributed.client.jobs.submit(SPEC) for _ in range(3)]
    assert not distributed.redis.running, "a POST must not wait for Redis"
    assert [job.refresh().state for job in jobs] == [State.QUEUED] * 3
    distributed.redis.start()
    ended = distributed.client.jobs.wait(jobs, timeout_s=DEADLINE_S)
    assert [job.state for job in ended] == [State.SUCCEEDED] * 3
    assert [job.attempt for job in ended] == [1] * 3
    assert all(job.steps()["step"].tolist() == list(range(job.total_steps)) for job in ended)


def test_the_worker_is_listed_with_its_hardware(
    distributed: DistributedStack, wait_until: Callable[..., Any]
) -> None:
    worker = wait_until(lambda: next(iter(distributed.client.workers.list()), None))
    assert (worker.state, worker.pid, worker.slots) == ("online", distributed.worker.pid, 1)
    wait_until(lambda: distributed.client.workers.list()[0].hardware is not None)
