"""Gangs on two workers: they start together, and end together whatever happens to one rank."""

import hashlib
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import update
from sqlalchemy.exc import ProgrammingError

from ampcore.distributed.cluster import Cluster
from ampspec.jobs import Reason, State
from infra.log_config import ContextFilter
from infra.storage import Storage
from store import workers
from store.clock import from_now
from store.database import Database
from store.files import datasets
from store.files.datasets import Description, StoredDataset
from store.gangs import gang_members, gangs
from store.jobs import attempts, jobs, lease_expiry
from store.tables import Attempt, GangMember, Job
from store.telemetry import logs
from store.telemetry.ingest import LogChunk
from tests.processes import has_ended
from tests.waiting import DEADLINE_S, wait_until
from tests.worker.conftest import program
from tests.worker.unreliable_database import Unreliable
from worker.attempt.outcome import AttemptOutcome, AttemptResult, Failure
from worker.attempt.rank_log import RankLog
from worker.attempt.telemetry_writer import TelemetryWriter
from worker.background_thread import run_in_background
from worker.context import WorkerContext
from worker.gangs import follower_ranks
from worker.gangs.follower_ranks import FollowerRanks
from worker.gangs.gang_leader import with_cause
from worker.gangs.gang_runner import GangRunner
from worker.gangs.member_lease import MemberLease
from worker.rank_ports import RankPorts, local_addresses, own_host, port_of, ports_of
from worker.slots import Devices, Slots
from worker.tasks import run_queued_jobs
from worker.trainer.standby import Standby
from worker.transfer.download_cache import DownloadCache
from worker.work_dirs import WorkDirs

JOB_TIMEOUT_S = 0.5
LEASE_S = 30.0
"""Longer than any stall; a test that needs its end changes the row."""


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite is enough: tests/store has the transactions of gangs on both databases."""
    return sqlite_url


@dataclass
class Gang:
    """Workers in threads, and the gang that they run."""

    database: Database
    make_job: Callable[..., Any]
    make_context: Callable[..., WorkerContext]
    folder: Path
    contexts: dict[str, WorkerContext] = field(default_factory=dict)
    runners: list[GangRunner] = field(default_factory=list)
    job_id: str = ""

    def add_worker(self, name: str, script: str, slots: int = 1, **parts: Any) -> WorkerContext:
        context = self.make_context(
            script,
            worker_id=name,
            slots=Slots(slots),
            work_dirs=WorkDirs(self.folder / name, name),
            standby=Standby(program(script)),
            lease_s=LEASE_S,
            **parts,
        )
        fields = {"hostname": "h", "pid": 1, "version": "1", "slots": slots, "queues": ["default"]}
        with self.database.write() as session:
            workers.register(session, name, **fields)
            workers.heartbeat(session, name, hardware={"gang_host": "127.0.0.1"})
        self.contexts[name] = context
        runner = GangRunner(context, every_s=0.05)
        runner.start()
        self.runners.append(runner)
        return context

    def submit(self, workers: int = 2, devices: int = 1, data: Any = None, **runtime: Any) -> None:
        parts = {"workers": workers, "devices": devices, "max_attempts": 1, **runtime}
        options = {} if data is None else {"model": {"kind": "lstm_lm"}, "data": data}
        self.job_id = self.make_job(runtime=parts, **options).id

    def place(self) -> bool:
        with self.database.write() as session:
            for name in self.contexts:
                workers.heartbeat(session, name)
            return bool(gangs.place(session))

    def start(self, **runtime: Any) -> None:
        self.submit(**runtime)
        assert self.place()
        wait_until(lambda: self.job().attempt == 1, "the gang is claimed")

    def job(self) -> Job:
        with self.database.read() as session:
            job = jobs.get(session, self.job_id)
            assert job is not None
            return job

    def members(self) -> list[GangMember]:
        with self.database.read() as session:
            return list(gang_members.listing(session, self.job_id))

    def until_ended(self) -> Job:
        """Wait until the attempt has ended and every worker has recorded the end of its ranks."""
        wait_until(
            lambda: (
                not State(self.job().state).is_active
                and all(member.state == gang_members.ENDED for member in self.members())
            ),
            "the attempt and all its ranks have ended",
            show=lambda: str([(m.worker_id, m.state, m.devices) for m in self.members()]),
        )
        return self.job()

    def ask(self, request: Callable[..., Any]) -> None:
        with self.database.write() as session:
            assert request(session, self.job_id) is not None

    def log(self) -> str:
        with self.database.read() as session:
            rows = logs.read(session, self.job_id, limit=1000)
        return "".join(row.text for row in rows)

    def pid(self, rank: int) -> int:
        """The process of a rank, which prints its number when it trains."""

        pattern = re.compile(rf"rank {rank} is (\d+)\n")
        pids = wait_until(lambda: pattern.findall(self.log()), f"rank {rank} trains")
        return int(pids[-1])

    def processes(self, ranks: int) -> list[psutil.Process]:
        return [psutil.Process(self.pid(rank)) for rank in range(ranks)]

    def states(self) -> list[str]:
        return [device["state"] for member in self.members() for device in member.devices or ()]

    def shut_down_without_database(self, name: str, database: Unreliable) -> None:
        database.connect_failures = 10**6
        self.contexts[name].shutting_down.set()
        runner = self.runners[list(self.contexts).index(name)]
        try:
            run_in_background(runner.stop).result(DEADLINE_S)
        finally:
            database.connect_failures = 0

    def close(self) -> None:
        for context in self.contexts.values():
            context.shutting_down.set()
        for runner in self.runners:
            runner.stop()
        for context in self.contexts.values():
            context.standby.close()


@pytest.fixture
def gang(
    database: Database,
    make_job: Callable[..., Any],
    make_context: Callable[..., WorkerContext],
    tmp_path: Path,
) -> Iterator[Gang]:
    gang = Gang(database, make_job, make_context, tmp_path / "workers")
    yield gang
    gang.close()


def test_all_ranks_train_and_rank_0_reports(gang: Gang) -> None:
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_succeed", slots=2)
    gang.start(devices=2)
    job = gang.until_ended()
    assert (job.state, job.summary, job.step) == (State.SUCCEEDED, {"steps": 30}, 30)
    assert [(m.worker_id, m.first_rank, m.ranks) for m in gang.members()] == [
        ("w0", 0, 2), ("w1", 2, 2),
    ]  # fmt: skip
    assert gang.states() == ["succeeded"] * 4
    contexts = gang.contexts.values()
    wait_until(
        lambda: all(context.slots.free == 2 for context in contexts), "all slots are free again"
    )
    with gang.database.read() as session:
        [attempt] = attempts.listing(session, gang.job_id)
        assert (attempt.worker_id, attempt.ranks, attempt.outcome) == ("w0", 4, "succeeded")


@pytest.mark.parametrize(("timeout_s", "heartbeat_timeout_s"), [(7.0, 7.0), (70.0, LEASE_S)])
def test_each_rank_gets_its_cluster(
    gang: Gang, timeout_s: float, heartbeat_timeout_s: float
) -> None:
    for name in ("w0", "w1"):
        gang.add_worker(name, "prints_cluster", slots=2)
    gang.start(devices=2, exchange={"timeout_s": timeout_s})
    gang.until_ended()
    clusters = {}
    for line in gang.log().splitlines():
        text = line.partition("{")[2]
        if text:
            cluster = Cluster.from_json("{" + text)
            clusters[cluster.rank] = cluster
    assert sorted(clusters) == [0, 1, 2, 3]
    assert [clusters[rank].local_rank for rank in range(4)] == [0, 1, 0, 1]
    assert len({clusters[rank].addresses for rank in range(4)}) == 1
    ports = {port_of(address) for address in clusters[0].addresses} | {clusters[0].control_port}
    assert len(ports) == 5
    assert clusters[3].timeout_s == timeout_s
    assert clusters[3].heartbeat_timeout_s == heartbeat_timeout_s
    own_ranks = re.findall(r"^(?:\[rank (\d)\] )?own ranks (.*)$", gang.log(), re.MULTILINE)
    assert sorted(own_ranks) == [("", "[0, 2]"), ("1", "[1, 2]"), ("2", "[0, 2]"), ("3", "[1, 2]")]


def test_nothing_starts_before_all_workers_are_ready(gang: Gang) -> None:
    gang.add_worker("w0", "ranks_succeed")
    busy = gang.add_worker("w1", "ranks_succeed")
    assert busy.slots.take()  # a job that the database does not know of yet
    gang.submit()
    assert gang.place()
    wait_until(lambda: gang.members()[0].state == gang_members.READY, "the first worker is ready")
    assert (gang.job().state, gang.members()[1].state) == (State.QUEUED, gang_members.RESERVED)
    assert gang.contexts["w0"].slots.free == 0
    busy.slots.give_back()
    assert gang.until_ended().state == State.SUCCEEDED


def test_a_worker_that_waits_in_vain_frees_its_slots(gang: Gang) -> None:
    context = gang.add_worker("w0", "ranks_succeed")
    assert gang.add_worker("w1", "ranks_succeed").slots.take()
    gang.submit()
    assert gang.place()
    wait_until(lambda: context.slots.free == 0, "the first worker is ready")
    gang.ask(jobs.request_cancel)
    gang.place()
    wait_until(lambda: context.slots.free == 1, "its slot is free again")


def test_a_worker_gets_ready_again_for_a_new_reservation(gang: Gang) -> None:
    """Checked: if `started` does not notice the new reservation, the gang never starts."""
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_succeed")
    assert gang.contexts["w1"].slots.take()
    gang.submit()
    assert gang.place()
    wait_until(lambda: gang.members()[0].state == gang_members.READY, "the first worker is ready")
    with gang.database.write() as session:
        session.execute(update(GangMember).values(lease_expires_at=from_now(-1)))
    assert gang.place()
    gang.contexts["w1"].slots.give_back()
    assert gang.until_ended().state == State.SUCCEEDED


def test_log_lines_about_a_trainer_process_name_its_rank(
    gang: Gang, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(ContextFilter())
    gang.add_worker("w0", "ranks_succeed", slots=2)
    with caplog.at_level(logging.INFO):
        gang.start(workers=1, devices=2)
        gang.until_ended()
    exits = [record for record in caplog.records if "trainer process exited" in record.message]
    assert {getattr(record, "rank", None) for record in exits} == {0, 1}


def test_a_slot_with_a_rank_takes_no_job(gang: Gang) -> None:
    context = gang.add_worker("w0", "ranks_wait", slots=2)
    gang.start(workers=1, devices=2)
    plain = gang.make_job()
    run_queued_jobs(context)
    with gang.database.read() as session:
        assert jobs.get(session, plain.id).state == State.QUEUED  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_killed_rank_ends_all_others(gang: Gang, rank: int) -> None:
    """Checked: without `gang.stop_reason` in attempt/stop_reason.py rank 0 goes on for ever."""
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_wait", slots=2)
    gang.start(devices=2)
    processes = gang.processes(4)
    os.kill(processes[rank].pid, signal.SIGKILL)
    job = gang.until_ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.PROCESS_KILLED)
    assert "was killed by SIGKILL" in str(job.message)
    assert (f"Rank {rank}:" in str(job.message)) == (rank > 0)
    assert all(map(has_ended, processes))
    assert gang.states()[rank] == "failed"


def test_ranks_are_shown_as_running_while_they_train(gang: Gang) -> None:
    """Checked: if only FollowerRanks changes the state of a rank, rank 0 stays "starting"."""
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_wait", slots=2)
    gang.start(devices=2)
    gang.processes(4)
    wait_until(lambda: gang.states() == ["running"] * 4, "all ranks run", show=gang.states)


def test_a_rank_that_the_oom_killer_ended_is_reported_as_out_of_memory(
    gang: Gang, tmp_path: Path
) -> None:
    """Checked: without the counter of OOM kills the reason is that a signal killed the rank."""
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 1\noom_kill 4\n")
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_wait", memory_events=events)
    gang.start()
    processes = gang.processes(2)
    events.write_text("low 0\noom 2\noom_kill 5\n")
    os.kill(processes[1].pid, signal.SIGKILL)
    job = gang.until_ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.OUT_OF_MEMORY)
    assert str(job.message).startswith("Rank 1: The system killed the trainer process")


def test_the_last_lines_of_ranks_beside_rank_0_are_stored_before_the_job_ends(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked: without `wait_until_empty` in FollowerRanks.has_ended they are lost."""
    append, has_ended = TelemetryWriter._append, FollowerRanks.has_ended.fget
    is_awaited = threading.Event()

    def watched(group: FollowerRanks) -> bool:
        value = bool(has_ended(group))  # type: ignore[misc]
        if group._have_ended.is_set() and not value:
            is_awaited.set()
        return value

    def append_late(writer: TelemetryWriter, entries: Any) -> bool:
        """Store lines once the worker of rank 0 waits for them, or has ended the job without."""
        if isinstance(writer._lease, MemberLease) and "the last line" in str(entries):
            wait_until(
                lambda: is_awaited.is_set() or not State(gang.job().state).is_active,
                "the job waits for the lines of its ranks, or has ended",
            )
        return append(writer, entries)

    monkeypatch.setattr(FollowerRanks, "has_ended", property(watched))
    monkeypatch.setattr(TelemetryWriter, "_append", append_late)
    gang.add_worker("w0", "ranks_print_a_last_line", slots=2)
    gang.start(workers=1, devices=2)
    assert gang.until_ended().state == State.SUCCEEDED
    assert "[rank 1] the last line" in gang.log()


def test_a_line_of_a_rank_that_the_database_refuses_ends_the_attempt(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked: a gang that ends soon after that line succeeded, without its log."""

    def refuse(*_args: Any, **_options: Any) -> None:
        raise ProgrammingError("INSERT", {}, Exception("no such column"))

    monkeypatch.setattr(logs, "append", refuse)
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_print_a_last_line")
    gang.start()
    job = gang.until_ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)


def test_a_rank_whose_thread_cannot_start_ends_the_gang(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked: without `finally` in FollowerRanks.run the job stays active for ever."""
    start, calls = follower_ranks.run_in_background, []

    def fail_the_second(work: Any) -> Any:
        calls.append(work)
        if len(calls) == 2:
            raise RuntimeError("can't start new thread")
        return start(work)

    monkeypatch.setattr(follower_ranks, "run_in_background", fail_the_second)
    gang.add_worker("w0", "ranks_wait", slots=3)
    gang.start(workers=1, devices=3)
    job = gang.until_ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "can't start new thread" in str(job.message)


def test_a_success_of_rank_0_does_not_hide_that_a_rank_could_not_be_recorded() -> None:
    """Checked: the failure of another worker came after the success, and its log was lost."""
    succeeded = AttemptResult(AttemptOutcome.SUCCEEDED)
    lost = Failure(Reason.INTERNAL_ERROR, "Rank 1: the database refuses a line.")
    assert with_cause(succeeded, lost).reason == Reason.INTERNAL_ERROR
    killed = Failure(Reason.PROCESS_KILLED, "Rank 1 was killed while it ended.")
    assert with_cause(succeeded, killed) == succeeded


def test_a_rank_without_memory_is_the_cause_of_a_rank_0_that_was_killed() -> None:
    killed = AttemptResult(AttemptOutcome.FAILED, Reason.PROCESS_KILLED, "It was killed.")
    memory = Failure(Reason.OUT_OF_MEMORY, "Rank 1: no memory.")
    assert with_cause(killed, memory).reason == Reason.OUT_OF_MEMORY


def test_a_worker_that_cannot_load_the_data_says_why(gang: Gang, tmp_path: Path) -> None:
    """Checked: if an error of the worker is INTERNAL_ERROR, whatever it is, the job is retried."""
    gang.add_worker("w0", "ranks_wait")
    storage, cache = Storage((tmp_path / "empty").as_uri()), DownloadCache(tmp_path / "cache")
    gang.add_worker("w1", "ranks_wait", storage=storage, download_cache=cache)
    file = tmp_path / "poems.txt"
    file.write_text("roses are red")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    path = datasets.storage_path("default", sha256, "0123456789ab")
    size, _ = gang.contexts["w0"].storage.put(datasets.STORAGE_FOLDER, path, file)
    with gang.database.write() as session:
        stored = StoredDataset(path, file.name, size, sha256)
        datasets.add_version(session, "default", "poems", stored, Description(), created_by=None)
    gang.submit(data={"kind": "text", "dataset": "poems@1"})
    assert gang.place()
    job = gang.until_ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INVALID_DATA)
    assert job.message == "Rank 1: The storage has no file for the dataset poems@1."


def test_the_reason_of_a_failed_rank_is_that_of_the_job(gang: Gang) -> None:
    for name in ("w0", "w1"):
        gang.add_worker(name, "rank_1_fails")
    gang.start()
    job = gang.until_ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.INVALID_DATA)
    assert job.message == "Rank 1: It is NaN."


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("rank_0_fails_since_rank_1_is_killed", "Rank 1: The trainer process was killed by SIG"),
        ("rank_0_is_killed_after_rank_1_lost_it", "The trainer process was killed by SIGKILL."),
    ],
)
@pytest.mark.parametrize("slots", [1, 2])
def test_a_killed_rank_is_the_cause_whatever_the_others_report(
    gang: Gang, script: str, message: str, slots: int
) -> None:
    """Checked: without the precedence of reasons, and without `was_killed_by_others`, it fails."""
    for name in ("w0", "w1")[: 2 // slots]:
        gang.add_worker(name, script, slots=slots)
    gang.start(workers=2 // slots, devices=slots)
    job = gang.until_ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.PROCESS_KILLED)
    assert str(job.message).startswith(message)


@pytest.mark.parametrize(
    ("action", "state"),
    [(jobs.request_pause, State.PAUSED), (jobs.request_cancel, State.CANCELLED)],
)
def test_a_request_stops_every_rank(gang: Gang, action: Any, state: State) -> None:
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_wait")
    gang.start()
    processes = gang.processes(2)
    gang.ask(action)
    assert gang.until_ended().state == state
    assert all(map(has_ended, processes))


def test_the_ranks_beside_rank_0_live_until_it_has_saved(gang: Gang) -> None:
    gang.add_worker("w0", "rank_0_saves_slowly", slots=2, grace_s=0.5)
    gang.start(workers=1, devices=2)
    wait_until(lambda: gang.job().step == 10, "the first steps are stored")
    gang.ask(jobs.request_pause)
    job = gang.until_ended()
    assert (job.state, job.failures) == (State.PAUSED, 0)


@pytest.mark.parametrize("name", ["w0", "w1"])
def test_a_worker_that_shuts_down_hands_the_gang_back(gang: Gang, name: str) -> None:
    for worker in ("w0", "w1"):
        gang.add_worker(worker, "ranks_wait")
    gang.start()
    processes = gang.processes(2)
    gang.contexts[name].shutting_down.set()
    job = gang.until_ended()
    assert (job.state, job.reason, job.failures) == (State.QUEUED, Reason.WORKER_SHUTDOWN, 0)
    assert all(map(has_ended, processes))


def test_a_worker_without_its_database_can_be_shut_down(
    gang: Gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails if the worker waits for its database, to record the end of its ranks."""
    monkeypatch.setattr("worker.shutdown.DATABASE_TIMEOUT_S", 0.2)
    monkeypatch.setattr("worker.gangs.follower_ranks.LEADER_WAIT_S", 0.2)
    unreliable: Any = Unreliable(gang.database)
    gang.add_worker("w0", "ranks_wait")
    gang.add_worker("w1", "ranks_wait", database=unreliable)
    gang.start()
    rank_1 = gang.processes(2)[1]
    gang.shut_down_without_database("w1", unreliable)
    assert has_ended(rank_1)


def test_a_worker_that_waits_for_others_can_be_shut_down_without_its_database(gang: Gang) -> None:
    """Fails if it asks again and again whether the others are ready."""
    unreliable: Any = Unreliable(gang.database)
    context = gang.add_worker("w0", "ranks_succeed", database=unreliable)
    assert gang.add_worker("w1", "ranks_succeed").slots.take()
    gang.submit()
    assert gang.place()
    wait_until(lambda: context.slots.free == 0, "the first worker is ready")
    gang.shut_down_without_database("w0", unreliable)
    assert context.slots.free == 1


def test_a_timeout_stops_every_rank(gang: Gang) -> None:
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_wait")
    gang.start(timeout_s=JOB_TIMEOUT_S)
    job = gang.until_ended()
    assert (job.state, job.reason) == (State.FAILED, Reason.TIMEOUT)


def test_a_resize_hands_the_gang_back(gang: Gang) -> None:
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_wait")
    gang.start()
    gang.processes(2)
    with gang.database.write() as session:
        session.execute(update(Job).values(requested=gangs.RESIZE))
    job = gang.until_ended()
    assert (job.state, job.reason, job.failures) == (State.QUEUED, Reason.RESIZED, 0)


def test_a_port_that_was_taken_does_not_count_as_a_failure(gang: Gang) -> None:
    for name in ("w0", "w1"):
        gang.add_worker(name, "port_of_rank_1_taken")
    gang.start()
    job = gang.until_ended()
    assert (job.state, job.reason, job.failures) == (State.QUEUED, Reason.PORT_TAKEN, 0)
    assert gang.place()
    wait_until(lambda: gang.job().attempt == 2, "it starts again with other ports")
    assert gang.until_ended().state == State.SUCCEEDED


def test_all_ranks_end_when_the_lease_of_one_worker_expires(gang: Gang) -> None:
    """Checked: without `_attempt_is_active` in gang_members.py the ranks of w1 go on."""
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_wait")
    gang.start()
    processes = gang.processes(2)
    with gang.database.write() as session:
        session.execute(
            update(GangMember).where(GangMember.worker_id == "w1").values(
                lease_expires_at=from_now(-1)
            )
        )  # fmt: skip
        [ended] = lease_expiry.expire(session)
    assert (ended.state, ended.reason) == (State.FAILED, Reason.WORKER_LOST)
    wait_until(lambda: all(map(has_ended, processes)), "all ranks have ended")
    gang.until_ended()


@pytest.mark.slow
def test_only_rank_0_gets_the_checkpoint_which_it_sends_to_the_others(gang: Gang) -> None:
    """Checked: without `only_data` in worker/gangs/follower_ranks.py rank 1 finds one, too."""
    for name in ("w0", "w1"):
        gang.add_worker(name, "ranks_save")
    gang.start(max_attempts=2)
    gang.processes(2)
    wait_until(lambda: gang.job().step == 10, "the first steps are stored")
    gang.ask(jobs.request_pause)
    assert gang.until_ended().state == State.PAUSED
    gang.ask(jobs.resume)
    assert gang.place()
    wait_until(lambda: gang.job().state == State.SUCCEEDED, "the second attempt ends")
    with gang.database.read() as session:
        assert session.get(Attempt, (gang.job_id, 2)).first_step == 10  # type: ignore[union-attr]
    sentences = re.findall(r"^\[rank 1\] finds (.*)$", gang.log(), re.MULTILINE)
    assert sentences == ["the checkpoint of step 0"] * 2


def test_ports_are_free_and_differ() -> None:
    ports = RankPorts("10.0.0.9", 3)
    assert len({port_of(address) for address in ports.addresses}) == 3
    assert all(address.startswith("10.0.0.9:") for address in ports.addresses)
    ports.close()
    ports = RankPorts("fd00::2", 1)
    assert ports.addresses[0].startswith("[fd00::2]:")
    ports.close()


def test_ports_are_those_of_the_setting_that_are_free() -> None:
    with socket.create_server(("", 0)) as used:
        taken = used.getsockname()[1]
        with pytest.raises(OSError, match=rf"1 ports are needed, but 0 of .*{taken}"):
            RankPorts("10.0.0.9", 1, range(taken, taken + 1))
    ports = RankPorts("10.0.0.9", 1, range(taken, taken + 1))
    assert ports.addresses == [f"10.0.0.9:{taken}"]
    ports.close()


def test_ports_with_connections_of_an_earlier_attempt_are_used_last() -> None:
    """They stay in the state TIME_WAIT for a minute."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()
            assert client.recv(1) == b""
    ports = RankPorts("10.0.0.9", 1, range(port, port + 1))
    assert ports.addresses == [f"10.0.0.9:{port}"]
    ports.close()


def test_ranks_on_one_machine_use_its_loopback_interface() -> None:
    """Their ports can then be closed to other machines."""
    together = ["10.0.0.5:7001", "10.0.0.5:7003"]
    assert local_addresses(together, "10.0.0.5") == ["127.0.0.1:7001", "127.0.0.1:7003"]
    assert local_addresses(["[fd00::5]:7001"], "fd00::5") == ["127.0.0.1:7001"]
    apart = ["10.0.0.5:7001", "10.0.0.6:7003"]
    assert local_addresses(apart, "10.0.0.5") == apart
    elsewhere = ["10.0.0.6:7001", "10.0.0.6:7003"]
    assert local_addresses(elsewhere, "10.0.0.5") == elsewhere


def test_ranks_with_gpus_may_use_all_ports() -> None:
    cluster = {"addresses": ["a:1", "b:2"], "control_port": 3}
    assert ports_of(cluster, {"devices": [{"kind": "cpu"}]}) == (1, 2, 3)
    assert ports_of(cluster, {"devices": [{"kind": "cpu"}, {"kind": "gpu"}]}) is None


def test_the_host_is_that_of_the_network_of_the_database() -> None:
    assert own_host("sqlite:////data/a.sqlite") == "127.0.0.1"
    assert own_host("postgresql://a:b@127.0.0.1:5432/name") == "127.0.0.1"
    assert own_host("postgresql:///name") == "127.0.0.1"
    assert own_host("postgresql://database.invalid/name") == "127.0.0.1"


def test_slots_are_taken_together_or_not_at_all() -> None:
    slots = Slots(3)
    assert slots.take(2)
    assert not slots.take(2)
    assert slots.free == 1
    slots.give_back(2)
    assert slots.take(3)


def test_ranks_of_several_gangs_use_different_devices() -> None:
    devices = Devices()
    first = devices.take(2, devices=4)
    assert (first, devices.take(2, devices=4)) == ([0, 1], [2, 3])
    devices.give_back(first, devices=4)
    assert devices.take(3, devices=4) == [0, 1, 2]
    assert Devices().take(2, devices=0) == [0, 1]


def test_the_log_of_a_rank_has_whole_lines() -> None:
    log = RankLog(2)
    assert log.lines([LogChunk("stdout", "one\ntw")]) == [LogChunk("stdout", "[rank 2] one\n")]
    assert log.lines([LogChunk("stderr", "an error")]) == []
    assert log.lines([LogChunk("stdout", "o\n")]) == [LogChunk("stdout", "[rank 2] two\n")]
    assert log.lines([], at_end=True) == [LogChunk("stderr", "[rank 2] an error\n")]
