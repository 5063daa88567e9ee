"""What hostile code of a user can reach and use, in each sandbox that this machine allows.

Each test runs a real job beside an ordinary one, which must not notice it.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import psutil
import pytest
from sqlalchemy import update

import ampcore
from ampspec.jobs import Reason, State
from store.database import Database
from store.files.artifacts import CHECKPOINT, MODEL
from store.jobs import jobs
from store.tables import Job
from tests.needs import SANDBOX_NEEDS, require
from tests.processes import command_of
from tests.waiting import join, wait_until
from tests.worker import hostile_code
from tests.worker.conftest import Running
from tests.worker.hostile_code import MARK, MIB
from tests.worker.protected_data import SECRET, ProtectedData
from worker.context import WorkerContext
from worker.tasks import run_queued_jobs
from worker.trainer.log_capture import LIMIT_BYTES
from worker.trainer.memory_cgroups import PREFIX, find_memory_cgroups
from worker.trainer.sandbox import Sandbox
from worker.trainer.sandbox_plan import SandboxMode, SandboxPlan, SandboxSettings, plan_sandbox
from worker.trainer.standby import Standby

PROGRAM = (sys.executable, "-u", hostile_code.__file__)
PROGRAMS = [
    str(Path(numpy.__file__).parent.parent),
    str(Path(ampcore.__file__).parent),
    sys.prefix,
]
"""Folders with libraries that other trainers import."""
USERS = range(60_900, 60_910)
any_sandbox = pytest.mark.parametrize("plan", [SandboxMode.AUTO], indirect=True)
"""For what does not depend on the kind of sandbox."""
LIMITS = SandboxSettings(memory_bytes=256 * MIB, processes=100, disk_bytes=16 * MIB)


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: a sandbox does not depend on the database."""
    return sqlite_url


@pytest.fixture
def protected_data() -> Iterator[ProtectedData]:
    data = ProtectedData()
    yield data
    data.close()


@pytest.fixture(
    params=[SandboxMode.AUTO, pytest.param(SandboxMode.LANDLOCK, marks=pytest.mark.slow)]
)
def plan(request: pytest.FixtureRequest, protected_data: ProtectedData) -> SandboxPlan:
    """The plan with the best sandbox of this machine, which is bubblewrap, and with Landlock."""
    mode = SandboxMode(request.param)
    require(SANDBOX_NEEDS[mode])
    return plan_sandbox(
        replace(LIMITS, mode=mode),
        users=USERS,
        parent=protected_data.work_dirs.worker_dir,
        datasets=protected_data.data / "datasets",
    )


class Attack:
    """A hostile job and an ordinary one, in two slots of one worker."""

    def __init__(self, database: Database, hostile: Job, ordinary: Job, data: Path) -> None:
        self.database, self.data = database, data
        self.hostile_id, self.ordinary_id = hostile.id, ordinary.id

    def start(self, context: WorkerContext) -> None:
        self.context = context
        self.slots = [threading.Thread(target=run_queued_jobs, args=[context]) for _ in range(2)]
        for slot in self.slots:
            slot.start()

    def hostile(self) -> Running:
        return Running(self.context, self.database, self.hostile_id)

    def report(self) -> dict[str, Any]:
        """What the act `reach` has printed."""
        lines = self.hostile().log().splitlines()
        (line,) = (line for line in lines if line.startswith(MARK))
        report: dict[str, Any] = json.loads(line.removeprefix(MARK))
        return report

    def end(self) -> Job:
        """Wait for both jobs, check that nothing is left, and return the hostile one."""
        join(*self.slots)
        self.context.standby.close()
        with self.database.read() as session:
            ordinary = jobs.get(session, self.ordinary_id)
        assert ordinary is not None
        assert (ordinary.state, ordinary.step) == ("succeeded", 10), ordinary.message
        wait_until(lambda: self.processes() == [], "all processes end", show=self.processes)
        worker_dir = self.data / "scratch" / "w0"
        assert [path.name for path in worker_dir.iterdir()] == ["trainer-of-another-job"]
        return self.hostile().job()

    def processes(self) -> list[psutil.Process]:
        """The processes with this test's targets in their command."""
        mark = str(self.data)
        return [
            process
            for process in psutil.process_iter()
            if mark in command_of(process) and process.pid != os.getpid()
        ]


@pytest.fixture
def attack(
    *,
    plan: SandboxPlan,
    protected_data: ProtectedData,
    make_context: Callable[..., WorkerContext],
    make_job: Callable[..., Any],
    make_bundle_job: Callable[..., Job],
    database: Database,
) -> Callable[..., Attack]:
    """Starts a hostile job and an ordinary one on a worker with the sandbox."""

    def run(
        act: str,
        *,
        sandbox: Sandbox | None = None,
        kind: str = "bundle",
        max_attempts: int = 1,
        **parts: Any,
    ) -> Attack:
        hostile, ordinary = make_bundle_job(protected_data.storage), make_job()
        with database.write() as session:
            model = {**hostile.spec["model"], "kind": kind, "act": act}
            spec = {**hostile.spec, "model": model}
            changed = update(Job).where(Job.id == hostile.id)
            session.execute(changed.values(spec=spec, max_attempts=max_attempts))
        targets = json.dumps(targets_in(protected_data, ordinary.id))
        started = Attack(database, hostile, ordinary, protected_data.data)
        started.start(
            make_context(
                "hostile",
                storage=protected_data.storage,
                standby=Standby((*PROGRAM, targets)),
                work_dirs=protected_data.work_dirs,
                data_root=protected_data.data / "datasets",
                sandbox_plan=SandboxPlan(sandbox or plan.sandbox),
                **parts,
            )
        )
        return started

    return run


def targets_in(protected_data: ProtectedData, victim: str) -> dict[str, Any]:
    return {
        "data": str(protected_data.data),
        "other": str(protected_data.other_trainer_folder),
        "home": str(Path.home()),
        "programs": PROGRAMS,
        "tcp": protected_data.listener.getsockname(),
        "udp": protected_data.udp.getsockname(),
        "abstract": protected_data.abstract_name,
        "pids": {"its worker": os.getpid(), "a server": protected_data.process.pid},
        "victim": victim,
    }


# ---- Reach something


def test_hostile_code_reaches_nothing(attack: Callable[..., Attack]) -> None:
    started = attack("reach")
    ended = started.end()
    assert ended.state == "succeeded", (ended.message, started.hostile().log("stderr"))
    report = started.report()
    assert {name for name, result in report["tried"].items() if result == "done"} == set()
    assert set(report["permitted"].values()) == {"done"}, report["permitted"]
    assert SECRET not in started.hostile().log()


@any_sandbox
def test_outside_of_the_sandbox_the_same_code_reaches_it(attack: Callable[..., Attack]) -> None:
    started = attack("reach", kind="mlp")
    started.end()
    report = started.report()
    # The system itself may refuse these.
    kept = {"make namespaces", "find the settings of the service", "send with UDP to IPv6"}
    kept |= {name for name in report["tried"] if name.startswith(("ask for", "open", "trace"))}
    kept |= {f"write into {name}" for name in ("/etc", *PROGRAMS) if not os.access(name, os.W_OK)}
    if os.geteuid() != 0:
        kept |= {"be root", "write into the root folder"}
    tried = {name for name, result in report["tried"].items() if result == "done"}
    assert set(report["tried"]) - tried <= kept


def test_hostile_code_that_kills_all_it_can_disturbs_nobody(
    attack: Callable[..., Attack], protected_data: ProtectedData
) -> None:
    started = attack("kill_everything")
    started.end()
    assert protected_data.process.poll() is None


def test_processes_that_hostile_code_leaves_end_with_the_job(
    attack: Callable[..., Attack],
) -> None:
    assert attack("leave_processes").end().state == "succeeded"


def test_the_worker_uploads_no_file_from_outside_of_the_sandbox(
    attack: Callable[..., Attack], protected_data: ProtectedData
) -> None:
    started = attack("offer_the_token")
    started.end()
    assert [file.path for file in started.hostile().files()] == ["attempt-1/report.json"]
    stored = [path for path in (protected_data.data / "artifacts").rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in stored)


# ---- Use too much


@pytest.mark.parametrize(
    ("act", "reason", "words"),
    [
        ("use_memory", Reason.OUT_OF_MEMORY, "AMPCORE_BUNDLE_MEMORY_BYTES"),
        ("start_processes", Reason.RESOURCE_LIMIT, "AMPCORE_BUNDLE_PROCESSES"),
        ("fill_the_disk", Reason.RESOURCE_LIMIT, "AMPCORE_BUNDLE_DISK_BYTES"),
        ("make_many_files", Reason.RESOURCE_LIMIT, "more than 300 files"),
        ("make_sparse_files", Reason.RESOURCE_LIMIT, "AMPCORE_BUNDLE_DISK_BYTES"),
        ("fill_sockets", Reason.RESOURCE_LIMIT, "whose buffers are memory of the kernel"),
    ],
)
def test_a_job_that_exceeds_a_limit_ends_with_the_reason(
    act: str, reason: Reason, words: str, attack: Callable[..., Attack], plan: SandboxPlan
) -> None:
    assert plan.sandbox is not None
    # The memory of many processes exceeds the low limit of the other acts.
    memory_bytes = 256 * MIB if act == "use_memory" else 2**40
    limits = replace(plan.sandbox.limits, memory_bytes=memory_bytes, files=300)
    ended = attack(act, sandbox=replace(plan.sandbox, limits=limits)).end()
    assert (ended.state, ended.reason) == ("failed", reason), ended.message
    assert words in (ended.message or "")


@pytest.mark.needs("memory cgroups")
@pytest.mark.parametrize("act", ["use_memory", "fill_sockets"])
def test_a_job_that_exceeds_the_limit_of_its_cgroup_ends_alone(
    act: str, attack: Callable[..., Attack], plan: SandboxPlan
) -> None:
    """Memory of the kernel and shared memory count, each page once."""
    assert plan.sandbox is not None
    isolation = replace(plan.sandbox.isolation, cgroups=find_memory_cgroups())
    limits = replace(plan.sandbox.limits, memory_bytes=128 * MIB)
    started = attack(act, sandbox=replace(plan.sandbox, limits=limits, isolation=isolation))
    ended = started.end()
    assert (ended.state, ended.reason) == ("failed", Reason.OUT_OF_MEMORY), ended.message
    assert "AMPCORE_BUNDLE_MEMORY_BYTES" in (ended.message or "")
    assert isolation.cgroups is not None
    assert list(isolation.cgroups.parent.glob(f"{PREFIX}-{os.getpid()}-*")) == []


@any_sandbox
def test_kept_checkpoints_count_in_what_a_job_may_store(
    attack: Callable[..., Attack], plan: SandboxPlan
) -> None:
    assert plan.sandbox is not None
    limits = replace(plan.sandbox.limits, disk_bytes=4 * MIB)
    started = attack("store_checkpoints", sandbox=replace(plan.sandbox, limits=limits))
    job = started.end()
    assert (job.state, job.reason) == (State.FAILED, Reason.RESOURCE_LIMIT)
    kept = sorted(file.size_bytes for file in started.hostile().files() if file.kind == CHECKPOINT)
    assert kept == [MIB, 2 * MIB]
    [warned] = [row.data["message"] for row in started.hostile().events("warning")]
    assert "may store 4,194,304 bytes, 2 checkpoints included" in warned


@any_sandbox
def test_a_job_ends_when_little_of_the_workers_disk_is_free(
    attack: Callable[..., Attack], plan: SandboxPlan
) -> None:
    assert plan.sandbox is not None
    limits = replace(plan.sandbox.limits, free_disk_bytes=2**62)
    ended = attack("ignore_sigterm", sandbox=replace(plan.sandbox, limits=limits)).end()
    assert (ended.state, ended.reason) == ("failed", Reason.RESOURCE_LIMIT)
    assert "The worker's disk is almost full" in (ended.message or "")


@any_sandbox
def test_a_job_ends_when_little_of_the_machines_memory_is_available(
    attack: Callable[..., Attack], plan: SandboxPlan
) -> None:
    """Without a memory cgroup, memory of the kernel is in no sum over the job's processes."""
    assert plan.sandbox is not None
    limits = replace(plan.sandbox.limits, free_memory_bytes=2**62)
    ended = attack("ignore_sigterm", sandbox=replace(plan.sandbox, limits=limits)).end()
    assert (ended.state, ended.reason) == ("failed", Reason.RESOURCE_LIMIT)
    assert "The machine's memory is almost full" in (ended.message or "")


def test_a_file_cannot_become_larger_than_the_limit(attack: Callable[..., Attack]) -> None:
    started = attack("fill_one_file")
    started.end()
    assert "stopped: File too large" in started.hostile().log()


@any_sandbox
def test_endless_output_is_discarded_and_the_job_goes_on(attack: Callable[..., Attack]) -> None:
    started = attack("print_endlessly")
    assert started.end().state == "succeeded"
    assert len(started.hostile().log()) <= LIMIT_BYTES
    assert "the rest is discarded" in started.hostile().log("stderr")


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace_period(
    attack: Callable[..., Attack],
) -> None:
    started = attack("ignore_sigterm", grace_s=0.1)
    wait_until(lambda: "ignores SIGTERM" in started.hostile().log())
    started.hostile().ask(jobs.request_cancel)
    assert started.end().state == "cancelled"


@any_sandbox
def test_a_job_stores_no_more_than_its_limit(
    attack: Callable[..., Attack], plan: SandboxPlan
) -> None:
    assert plan.sandbox is not None
    limits = replace(plan.sandbox.limits, disk_bytes=4 * MIB)
    started = attack("store_endlessly", sandbox=replace(plan.sandbox, limits=limits))
    job = started.end()
    assert (job.state, job.reason) == (State.FAILED, Reason.RESOURCE_LIMIT)
    assert "could not be stored: the job may store 4,194,304 bytes" in job.message
    models = [file for file in started.hostile().files() if file.kind == MODEL]
    assert len(models) == 4
    warned = [row.data["message"] for row in started.hostile().events("warning")]
    assert ["may store 4,194,304 bytes" in text for text in warned] == [
        True,
        True,
    ]


# ---- Lie to the worker


@any_sandbox
@pytest.mark.parametrize(
    ("act", "words"),
    [
        ("write_garbage", "expected a frame of at most"),
        ("write_nested_json", "deeply nested JSON"),
        ("send_endless_frame", "expected a frame of at most"),
        ("write_header_of_wrong_type", "step: Input should be a valid integer; received a dict"),
        ("send_arrow", "expected encoded arrays"),
        ("send_bomb", "expected the end of the data within"),
        ("send_huge_numbers", "total_steps: Input should be less than or equal to"),
        ("claim_success_without_summary", "summary: Input should be a valid dictionary"),
        ("fail_for_unknown_reason", "reason: Input should be "),
        ("report_strange_versions", "expected one ready frame"),
        ("send_nested_summary", "summary: expected JSON nested at most 32 levels deep"),
        ("send_huge_summary", "summary: expected integers of at most 64 bits"),
        ("send_nested_event", "data: expected JSON nested at most 32 levels deep"),
        ("send_overlapping_steps", "first_step: expected 10; received 5"),
        ("send_steps_twice", "first_step: expected 10; received 0"),
        ("claim_a_state", "event: expected an event of a trainer; received state"),
    ],
)
def test_a_job_that_sends_false_frames_fails_once(
    act: str, words: str, attack: Callable[..., Attack]
) -> None:
    ended = attack(act, max_attempts=3).end()
    assert (ended.state, ended.reason) == ("failed", Reason.INVALID_TELEMETRY), ended.message
    assert words in (ended.message or "")
    assert ended.attempt == 1


@any_sandbox
def test_a_success_with_an_exit_code_is_none(attack: Callable[..., Attack]) -> None:
    ended = attack("claim_success_and_fail").end()
    assert (ended.state, ended.reason) == ("failed", Reason.INTERNAL_ERROR)
    assert "reported success, but exited with code 1" in (ended.message or "")


@any_sandbox
def test_the_worker_computes_the_sums_of_steps_itself(attack: Callable[..., Attack]) -> None:
    started = attack("send_false_sums")
    ended = started.end()
    assert (ended.state, ended.step) == ("succeeded", 10)
    assert (ended.latest["loss"], ended.latest["skipped"]) == (0.5, 0)
    assert started.hostile().steps() == list(range(10))


@any_sandbox
def test_frames_that_name_another_job_concern_the_one_that_sends_them(
    attack: Callable[..., Attack],
) -> None:
    ended = attack("claim_other_job").end()  # the other job has succeeded
    assert (ended.state, ended.reason) == ("failed", Reason.INVALID_DATA)
