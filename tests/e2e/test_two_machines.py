"""The guide for two machines, command by command: a job trains on both, and one is cut off.

The machines are network namespaces with two cables between them: one for the databases, and one for
the ranks. Without the right to make those, the same commands run with two addresses of the loopback
interface, and what is cut off are processes that are suspended.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pytest
import yaml

from ampclient import Client, ConnectionFailed, Job
from ampspec.jobs import State
from server.embedded.private_redis import find_redis_server
from store.database import Database
from store.gangs import gang_members
from tests import machines
from tests.chaos.postgres import Postgres
from tests.e2e.machine import Machine
from tests.e2e.test_doc_code_blocks import ROOT, Block, blocks_of
from tests.needs import problem_of
from tests.processes import children_of, free_port, has_ended, name_of
from tests.waiting import DEADLINE_S, wait_until
from worker.trainer.child.fork_server import TRAINER_NAME

GUIDE: Final = "docs/guides/several-devices.md"
ADDRESSES: Final = ("10.0.0.5", "10.0.0.6")
RANK_ADDRESSES: Final = ("10.0.1.5", "10.0.1.6")
"""Where the ranks of the workers find each other."""
RANK_CABLE: Final = "-r"
"""The suffix of the interfaces with these addresses."""
LOOPBACK_ADDRESSES: Final = ("127.0.0.1", "127.0.0.2")
PORTS: Final = {"postgres": 5432, "redis": 6379, "api": 8470}
PASSWORD: Final = "pw4machines0123456789"
WORKER_ADDRESS: Final = "AMPCORE_WORKER_ADDRESS="
LEASE_S: Final = 10.0
"""If a busy machine makes a healthy worker lose its lease, a job has one more attempt."""
MAX_ATTEMPTS: Final = 100
RANK_TIMEOUT_S: Final = 5.0
LONG_S: Final = 3600
"""Longer than a test."""
WAITING: Final = "It needs 2 slots, 1 on each of 2 workers."


@dataclass
class TwoMachines:
    """Machine A with the servers and a worker, and machine B with a worker."""

    a: Machine
    b: Machine
    blocks: dict[str, Block]
    """The blocks of the guide by their first lines."""
    client: Client
    workers: tuple[psutil.Process, psutil.Process]
    """On A and on B."""
    cables: tuple[str, str] | None
    """The network interfaces of B: to the databases, and to the ranks. None without namespaces."""
    database: Database
    wait: Callable[[Callable[[], Any], str], Any]
    """As `wait_until`; a failure shows the logs of both machines."""

    def workers_of(self, attempt: Any) -> set[int]:
        """The process ids of the workers of its ranks."""
        pids = {worker.id: worker.pid for worker in self.client.workers.list()}
        return {pids[rank.worker_id] for rank in attempt.ranks}

    def ranks(self, number: int) -> list[psutil.Process]:
        """The processes that train on machine A (0) or B (1)."""
        return [
            process
            for process in children_of(self.workers[number], recursive=True)
            if name_of(process) == TRAINER_NAME
        ]

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Machine B has no network."""
        with self._without(self.cables or (), self.b.processes()):
            yield

    @contextmanager
    def ranks_cut_off(self) -> Iterator[None]:
        """The ranks do not reach each other; their workers reach the databases."""
        with self._without(self.cables[1:] if self.cables else (), self.ranks(1)):
            yield

    @contextmanager
    def _without(
        self, cables: Sequence[str], processes: Sequence[psutil.Process]
    ) -> Iterator[None]:
        """Cut these cables; without any, suspend the processes."""
        suspended = [] if cables else processes
        for process in suspended:
            process.suspend()
        try:
            self._set_cables(cables, "down")
            yield
        finally:
            self._set_cables(cables, "up")
            for process in suspended:
                if not has_ended(process):
                    process.resume()

    def _set_cables(self, cables: Sequence[str], state: str) -> None:
        if self.b.network is not None:
            for cable in cables:
                machines.ip("-n", self.b.network.name, "link", "set", cable, state)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoMachines]:
    """Both machines, after steps 1 to 5 of the guide."""
    blocks = {block.first_line: block for block in blocks_of(ROOT, GUIDE)}
    folder = tmp_path_factory.mktemp("machines")
    (folder / "shared").mkdir()
    with ExitStack() as stack:
        networks = stack.enter_context(connected_networks())
        addresses = ADDRESSES if networks else LOOPBACK_ADDRESSES
        ports = PORTS if networks else {name: free_port() for name in PORTS}
        of_ranks = RANK_ADDRESSES if networks else LOOPBACK_ADDRESSES
        changes = {
            **{
                WORKER_ADDRESS + written: WORKER_ADDRESS + real
                for written, real in zip(ADDRESSES, of_ranks, strict=True)
            },
            **dict(zip(ADDRESSES, addresses, strict=True)),
            **{f":{PORTS[name]}": f":{port}" for name, port in ports.items()},
            "PASSWORD": PASSWORD,
            "/mnt/ampcore": str(folder / "shared"),
        }
        a, b = (
            Machine(
                folder / name,
                networks[number] if networks else None,
                {**changes, "/var/lib/ampcore": str(folder / name / "data")},
                {"AMPCORE_LEASE_S": str(LEASE_S), "AMPCORE_PORT": str(ports["api"])},
                blocks["# On both machines"].text,
            )
            for number, name in enumerate("ab")
        )
        start_postgres(stack, a, addresses[0], ports["postgres"])
        for machine in (a, b):
            machine.folder.mkdir()
            stack.callback(machine.stop)
        start_redis(a, addresses[0], ports["redis"])
        token = a.run(blocks["# On machine A, once"]).split()[-1]
        a.changes["TOKEN=TOKEN"] = f"TOKEN={token}"
        a.start(blocks["# On machine A, the server"])
        shells = (
            a.start(blocks["# On machine A, a worker"]),
            b.start(blocks["# On machine B, a worker"]),
        )
        (a.folder / "two-machines.yaml").write_text(blocks["name: two-machines"].text)
        stack.enter_context(a.here())
        client = stack.enter_context(
            Client(f"http://127.0.0.1:{ports['api']}", token, timeout_s=DEADLINE_S)
        )

        def wait(condition: Callable[[], Any], what: str) -> Any:
            return wait_until(condition, what, show=lambda: f"\nA:\n{a.log}\nB:\n{b.log}")

        wait(lambda: is_reachable(client), "the API answers")
        on_a, on_b = (
            wait(lambda shell=shell: ready_worker(client, shell), "the workers are ready")
            for shell in shells
        )
        to_a = networks[0].name if networks else ""
        cables = (to_a, to_a + RANK_CABLE) if networks else None
        url = f"postgresql://ampcore:{PASSWORD}@{addresses[0]}:{ports['postgres']}/ampcore"
        database = Database(url)
        stack.callback(database.close)
        yield TwoMachines(a, b, blocks, client, (on_a, on_b), cables, database, wait)


@contextmanager
def connected_networks() -> Iterator[tuple[machines.Machine, machines.Machine] | None]:
    """The networks of two machines with two cables between them; None without the right to it."""
    if problem_of("network namespaces") is not None:
        yield None
        return
    name = f"m{os.getpid()}"
    with (
        machines.created_machine(f"{name}-a") as first,
        machines.created_machine(f"{name}-b") as second,
    ):
        machines.connect(first, ADDRESSES[0], second, ADDRESSES[1])
        machines.connect(first, RANK_ADDRESSES[0], second, RANK_ADDRESSES[1], RANK_CABLE)
        yield first, second


def start_postgres(stack: ExitStack, machine: Machine, address: str, port: int) -> None:
    """A PostgreSQL that listens on the machine's address, with the user and the database."""
    # Not below pytest's folder: started by root, the server runs as a user who cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="ampcore-machines-postgres-"))
    stack.callback(shutil.rmtree, folder)
    with machine.here():
        server = Postgres(folder)
        stack.callback(stop_postgres, server, folder / "data" / "postmaster.pid")
        server.create_user("ampcore", PASSWORD)
        server.listen(address, port)


def stop_postgres(server: Postgres, pid_file: Path) -> None:
    """End the server, which removes this file."""
    server.close()
    assert not pid_file.exists(), "PostgreSQL still runs"


def start_redis(machine: Machine, address: str, port: int) -> None:
    """A Redis that listens on the machine's address."""
    options = {"bind": address, "port": port, "requirepass": PASSWORD, "dir": machine.folder}
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    machine.start_program(find_redis_server(), *given, "--save", "")


def is_reachable(client: Client) -> bool:
    try:
        return bool(client.version())
    except ConnectionFailed:
        return False


def ready_worker(client: Client, shell: psutil.Process) -> psutil.Process | None:
    """The worker that this shell runs, once it can start a trainer."""
    own = {process.pid: process for process in (shell, *children_of(shell, recursive=True))}
    ready = [one.pid for one in client.workers.list() if one.state == "online" and one.hardware]
    return next((own[pid] for pid in ready if pid in own), None)


def test_a_job_trains_on_both_machines_with_the_commands_of_the_guide(pair: TwoMachines) -> None:
    as_user = pair.blocks["# On machine A, as a user"]
    said = pair.a.run(as_user)
    job = next(pair.client.jobs.list())
    pair.a.changes[" ID"] = f" {job.id}"
    pair.a.preamble += next(line for line in as_user.text.splitlines(True) if "TOKEN" in line)
    assert job.state is State.SUCCEEDED, said
    assert pair.workers_of(job.attempts()[-1]) == {worker.pid for worker in pair.workers}
    shown = pair.a.run(pair.blocks["# On machine A, the attempts of the job"])
    assert all(rank.worker_id in shown for rank in job.attempts()[-1].ranks)
    # As the guide says, two ranks train as one that accumulates two micro-batches.
    spec = yaml.safe_load(pair.blocks["name: two-machines"].text)
    alone = pair.client.jobs.submit({**spec, "train": {"accumulate": 2}, "runtime": {}})
    alone.wait(timeout_s=DEADLINE_S)
    found, expected = job.steps(), alone.steps()
    assert found["step"].tolist() == expected["step"].tolist()
    assert found["examples"].tolist() == expected["examples"].tolist()
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-3)


def test_a_job_goes_on_when_a_machine_that_was_cut_off_is_back(pair: TwoMachines) -> None:
    """Mechanism: the worker of the machine cannot renew the lease of its ranks.

    Checked: if store/jobs/lease_expiry.py ends attempts 5 s before a lease expires, it fails with
    "it ended before the lease of machine B".
    """
    spec = long_job(pair, timeout_s=LONG_S)  # only the lease can end the attempt
    job = pair.client.jobs.submit(spec)
    pair.wait(lambda: has_checkpoint(job), "a checkpoint is recorded")
    ports = listening_ports(pair.workers[0])
    assert ports
    assert ports <= set(range(42_000, 42_016)), "as the guide says"
    with pair.cut_off():
        cut, ranks = job.refresh().attempt, pair.ranks(1)
        assert ranks
        ended = pair.wait(lambda: ended_attempt(job, cut), "the attempt ends")
        assert (ended.outcome, ended.reason) == ("lost", "worker_lost"), ended.message
        pair.wait(lambda: WAITING in (job.refresh().waiting or ""), "the job waits for a worker")
        if pair.cables:  # otherwise they are suspended
            pair.wait(lambda: all(map(has_ended, ranks)), "the ranks of machine B end, cut off")
    pair.wait(lambda: all(map(has_ended, ranks)), "the ranks of machine B end")
    on_a, on_b = leases(pair, job, cut)
    assert on_b <= ended.finished_at, "it ended before the lease of machine B"
    assert on_b < on_a, "the worker of A renewed its own lease for longer"
    assert_trains_on(pair, job, spec, after=cut)


def test_a_job_goes_on_when_the_network_between_its_ranks_is_back(pair: TwoMachines) -> None:
    """Mechanism: the control channel of the ranks is silent; their workers renew all leases.

    On a busy machine an attempt may end for another reason. Checked: if nothing is cut, no attempt
    ends.
    """
    spec = long_job(pair, timeout_s=RANK_TIMEOUT_S)
    job = pair.client.jobs.submit(spec)
    pair.wait(lambda: has_checkpoint(job), "a checkpoint is recorded")
    with pair.ranks_cut_off():
        cut, ranks = job.refresh().attempt, [*pair.ranks(0), *pair.ranks(1)]
        lost = pair.wait(lambda: attempt_that_lost_a_rank(job, cut), "a rank is lost")
        assert lost.outcome == "failed"
        pair.wait(lambda: all(map(has_ended, ranks)), "all ranks end")
    assert_trains_on(pair, job, spec, after=lost.attempt)


def long_job(pair: TwoMachines, timeout_s: float) -> dict[str, Any]:
    """The job of the guide, which trains until it is cancelled."""
    spec = yaml.safe_load(pair.blocks["name: two-machines"].text)
    spec |= {"train": {"steps": 1_000_000, "checkpoint_every_s": 0.5}}
    exchange = {"timeout_s": timeout_s}
    spec["runtime"] |= {"max_attempts": MAX_ATTEMPTS, "engine": "graph", "exchange": exchange}
    return dict(spec)


def assert_trains_on(pair: TwoMachines, job: Job, spec: dict[str, Any], after: int) -> None:
    """Assert that a later attempt resumes on both machines, as if nothing had happened."""
    resumed = pair.wait(lambda: running_attempt(job, after), "the job goes on")
    assert resumed.first_step, "it restarted at step 0"
    assert pair.workers_of(resumed) == {worker.pid for worker in pair.workers}
    pair.wait(lambda: (job.refresh().step or 0) > resumed.first_step, "it trains")
    job = job.cancel().wait(timeout_s=DEADLINE_S)
    undisturbed = pair.client.jobs.submit(spec)
    pair.wait(lambda: (undisturbed.refresh().step or 0) >= job.step, "the other one trains as far")
    undisturbed.cancel().wait(timeout_s=DEADLINE_S)
    found, expected = job.steps()["loss"].tolist(), undisturbed.steps()["loss"].tolist()
    assert len(expected) >= len(found) > resumed.first_step
    assert found == expected[: len(found)]


def leases(pair: TwoMachines, job: Job, attempt: int) -> list[datetime]:
    """When the leases of the workers on A and on B have expired, by the database's clock."""
    with pair.database.read() as session:
        members = gang_members.listing(session, job.id, attempt)
    pids = {worker.id: worker.pid for worker in pair.client.workers.list()}
    by_pid = {pids[member.worker_id]: member.lease_expires_at for member in members}
    return [by_pid[worker.pid] for worker in pair.workers]


def listening_ports(worker: psutil.Process) -> set[int]:
    """The TCP ports of the processes that the worker has started; it is on this machine, or A."""
    return {
        connection.laddr.port
        for process in children_of(worker, recursive=True)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def has_checkpoint(job: Job) -> bool:
    return any(artifact.kind == "checkpoint" for artifact in job.artifacts())


def ended_attempt(job: Job, number: int) -> Any:
    found = job.attempts()[number - 1]
    return found if found.outcome else None


def attempt_that_lost_a_rank(job: Job, first: int) -> Any:
    """The first attempt from this number on that ended because of a lost rank."""
    attempts = job.attempts()[first - 1 :]
    return next((one for one in attempts if one.reason == "rank_lost"), None)


def running_attempt(job: Job, after: int) -> Any:
    now = job.refresh()
    is_next = now.attempt > after and now.state is State.RUNNING
    return job.attempts()[-1] if is_next else None
