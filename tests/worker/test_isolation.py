"""What a hostile trainer can reach, under each kind of isolation that this machine allows."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

import ampcore
from infra.isolation import Confinement, confine, landlock
from infra.settings import SettingsInvalid
from store.files.artifacts import CHECKPOINT
from store.tables import Artifact
from tests.environment import settings_from
from tests.machines import created_machine
from tests.waiting import wait_until
from tests.worker.conftest import Start
from tests.worker.hostile_trainer import MARK
from tests.worker.protected_data import ProtectedData
from worker.settings import WorkerSettings
from worker.trainer import isolation_plan
from worker.trainer.isolation import Isolation
from worker.trainer.isolation_plan import (
    IsolationMode,
    IsolationSettings,
    IsolationUnavailable,
    plan_isolation,
)
from worker.trainer.standby import Standby
from worker.trainer.trainer_users import claim_user

HOSTILE = Path(__file__).with_name("hostile_trainer.py")
USERS = range(60_800, 60_810)
PROCESSES = 40
MEMORY_BYTES = 2**30

NEEDS_LANDLOCK = {
    "read an artifact",
    "make a link to the token",
    "run its own program",
    "connect to a port",
    "connect to an abstract socket",
}
NEEDS_OWN_USER = {"change the permissions of the token", "change a limit of its worker"}
"""Landlock does not cover these, so that a trainer may do them with its worker's user."""
UNCOUNTED = {"start more processes"}
"""Linux does not count the processes of root."""

needs_other_users = pytest.mark.needs("other users", "python for other users")
needs_landlock = pytest.mark.needs("landlock for signals")
KINDS = [
    pytest.param("landlock", marks=needs_landlock),
    pytest.param("own_user", marks=needs_other_users),
    pytest.param("both", marks=[needs_other_users, needs_landlock]),
]


class AttackedData(ProtectedData):
    """What the hostile trainer attacks, under each kind of isolation."""

    def isolation(self, kind: str) -> Isolation | None:
        if kind == "off":
            return None
        return Isolation(
            parent=self.work_dirs.worker_dir,
            datasets=self.data / "datasets",
            users=None if kind == "landlock" else USERS,
            landlock_abi=0 if kind == "own_user" else landlock.abi(),
            processes=PROCESSES,
            memory_bytes=MEMORY_BYTES,
        )

    def program(self, *, leave: bool = False) -> tuple[str, ...]:
        targets = {
            "data": str(self.data),
            "other": str(self.other_trainer_folder),
            "package": str(Path(ampcore.__file__).parent),
            "port": self.listener.getsockname(),
            "abstract": self.abstract_name,
            "pids": {"its worker": os.getpid(), "init": 1},
            "memory_bytes": MEMORY_BYTES,
            "processes": PROCESSES,
            "leave": leave,
        }
        return (sys.executable, "-u", str(HOSTILE), json.dumps(targets))


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: isolation does not depend on the database."""
    return sqlite_url


@pytest.fixture
def protected_data() -> Iterator[AttackedData]:
    data = AttackedData()
    yield data
    data.close()


@pytest.fixture
def attack(protected_data: AttackedData, start: Start) -> Callable[..., dict[str, Any]]:
    """Runs the hostile trainer under a kind of isolation, and returns its report."""

    def run(kind: str, *, leave: bool = False, job: Any = None) -> dict[str, Any]:
        isolation = protected_data.isolation(kind)
        running = start(
            "hostile",
            job=job,
            storage=protected_data.storage,
            standby=Standby(protected_data.program(leave=leave), isolation),
            work_dirs=protected_data.work_dirs,
            data_root=protected_data.data / "datasets",
            isolation=isolation,
        )
        ended = running.ended()
        running.context.standby.close()
        assert ended.state == "succeeded", (ended.message, running.log("stderr"))
        (line,) = (line for line in running.log().splitlines() if line.startswith(MARK))
        report: dict[str, Any] = json.loads(line.removeprefix(MARK))
        return report

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_an_isolated_trainer_cannot_reach_other_data_or_processes(
    kind: str, attack: Callable[..., Any]
) -> None:
    report = attack(kind)
    expected: set[str] = set()
    if kind == "own_user":
        expected |= NEEDS_LANDLOCK
    if kind == "landlock":
        expected |= NEEDS_OWN_USER | (UNCOUNTED if os.geteuid() == 0 else set())
    assert {name for name, result in report["tried"].items() if result == "done"} == expected
    assert set(report["permitted"].values()) == {"done"}, report["permitted"]


@pytest.mark.slow
def test_without_isolation_a_trainer_can_reach_what_its_worker_can(
    attack: Callable[..., Any],
) -> None:
    report = attack("off")
    # The system itself may refuse these without isolation.
    kept = {"use a right of root", "trace its worker", "write into the package folder"}
    kept.add("be open to a debugger")  # the fork server never is
    tried = {name: result for name, result in report["tried"].items() if " init" not in name}
    assert {name for name, result in tried.items() if result != "done"} <= kept


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.values[0] != "landlock"])
def test_processes_of_a_trainer_with_its_own_user_end_with_it(
    kind: str, attack: Callable[..., Any]
) -> None:
    pid = attack(kind, leave=True)["left"]
    wait_until(lambda: not psutil.pid_exists(pid))


@pytest.mark.parametrize("kind", KINDS)
def test_an_isolated_trainer_can_read_and_delete_the_downloaded_checkpoint(
    kind: str,
    attack: Callable[..., Any],
    protected_data: AttackedData,
    make_job: Callable[..., Any],
    database: Any,
) -> None:
    job = make_job(runtime={"max_attempts": 1})
    file, path = (
        protected_data.data / "made",
        "attempt-1/checkpoints/checkpoint-000001-step-1.safetensors",
    )
    file.write_text("state")
    size_bytes, sha256 = protected_data.storage.put(job.id, path, file)
    with database.write() as session:
        facts = {"size_bytes": size_bytes, "sha256": sha256, "step": 0, "attempt": 1, "seq": 1}
        session.add(Artifact(job_id=job.id, path=path, kind=CHECKPOINT, **facts))
    permitted = attack(kind, job=job)["permitted"]
    assert (permitted["read a checkpoint"], permitted["remove a checkpoint"]) == ("done", "done")


def test_a_trainers_folder_is_removed_after_the_attempt(
    attack: Callable[..., Any], protected_data: AttackedData
) -> None:
    attack("landlock" if landlock.abi() else "off")
    assert list(protected_data.work_dirs.worker_dir.iterdir()) == [
        protected_data.other_trainer_folder
    ]


# ---- Planning


@needs_landlock
def test_the_plan_contains_every_measure_of_this_machine(protected_data: AttackedData) -> None:
    planned = plan_isolation(
        IsolationSettings(),
        parent=protected_data.work_dirs.worker_dir,
        datasets=protected_data.data / "datasets",
    )
    assert planned is not None
    assert planned.landlock_abi == landlock.abi()
    assert planned.memory_bytes
    described = planned.describe()
    assert all(described[name] for name in ("files", "processes", "tcp", "memory_bytes"))
    if os.geteuid() == 0:
        assert (planned.users is None) == bool(planned.missing)


@pytest.mark.parametrize(
    ("abi", "is_root_here", "may_switch", "closed", "words"),
    [
        (0, True, True, None, ["has no Landlock (added in Linux 5.13"]),
        (
            0,
            False,
            False,
            None,
            ["has no Landlock (added in Linux 5.13", "can kill other processes"],
        ),
        (5, False, False, None, ["has no Landlock 6"]),
        (7, True, True, Path("/closed"), ["because other users cannot enter /closed"]),
        (
            7,
            True,
            False,
            None,
            ["lacks some of the capabilities CHOWN, DAC_OVERRIDE, FOWNER, KILL"],
        ),
        (7, True, False, Path("/closed"), ["lacks some of the capabilities"]),
        (7, True, True, None, []),
        (7, False, False, Path("/closed"), []),
    ],
)
def test_missing_measures_are_named(
    abi: int, is_root_here: bool, may_switch: bool, closed: Path | None, words: list[str]
) -> None:
    facts = {"is_root": is_root_here, "may_switch": may_switch}
    sentences = list(isolation_plan._missing(abi, **facts, closed=closed))
    assert len(sentences) == len(words)
    assert all(word in sentence for word, sentence in zip(words, sentences, strict=True))


EVERYBODY = "         0          0 4294967295\n"


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("capabilities", "users", "groups", "may"),
    [
        ("000001ffffffffff", EVERYBODY, EVERYBODY, True),
        ("00000000000000eb", EVERYBODY, EVERYBODY, True),
        ("0000000000000000", EVERYBODY, EVERYBODY, False),
        ("00000000000000cb", EVERYBODY, EVERYBODY, False),
        ("000001ffffffffff", "0 1000 1\n1 100000 65536\n", EVERYBODY, True),
        ("000001ffffffffff", "0 1000 1\n", EVERYBODY, False),
        ("000001ffffffffff", EVERYBODY, "0 1000 1\n", False),
    ],
)
def test_switching_users_needs_capabilities_and_mapped_ids(
    capabilities: str, users: str, groups: str, may: bool, tmp_path: Path
) -> None:
    (tmp_path / "status").write_text(f"Name:\tpython\nCapEff:\t{capabilities}\n")
    (tmp_path / "uid_map").write_text(users)
    (tmp_path / "gid_map").write_text(groups)
    assert isolation_plan.can_run_as(USERS, proc=tmp_path) is may


def test_required_isolation_that_is_unavailable_raises(
    protected_data: AttackedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    required = IsolationSettings(mode=IsolationMode.REQUIRED)
    with pytest.raises(IsolationUnavailable, match=r"AMPCORE_TRAINER_ISOLATION=required.*5\.13"):
        plan_isolation(
            required,
            parent=protected_data.work_dirs.worker_dir,
            datasets=protected_data.data / "datasets",
        )


def test_isolation_off_plans_nothing(protected_data: AttackedData) -> None:
    settings = IsolationSettings(mode=IsolationMode.OFF)
    assert (
        plan_isolation(
            settings,
            parent=protected_data.work_dirs.worker_dir,
            datasets=protected_data.data / "datasets",
        )
        is None
    )


def test_a_folder_closed_to_other_users_is_found(protected_data: AttackedData) -> None:
    inner = protected_data.data / "a" / "b"
    inner.mkdir(parents=True)
    assert isolation_plan.closed_to_others([inner]) is None
    inner.parent.chmod(0o700)
    assert isolation_plan.closed_to_others([inner]) == inner.parent
    assert isolation_plan.closed_to_others([inner / "not" / "there"]) == inner.parent


def test_a_claimed_user_id_is_not_claimed_twice() -> None:
    first = claim_user(USERS)
    second = claim_user(USERS)
    assert first.number != second.number
    first.release()
    third = claim_user([first.number])
    with pytest.raises(OSError, match="AMPCORE_TRAINER_USERS"):
        claim_user([third.number, second.number])
    second.release()
    third.release()


@pytest.mark.needs("network namespaces")
def test_a_claimed_user_id_is_claimed_in_all_network_namespaces() -> None:
    """Else a worker in another one ends this worker's trainers with its own."""
    claimed = claim_user(USERS)
    program = f"from worker.trainer.trainer_users import claim_user; claim_user([{claimed.number}])"
    with created_machine(f"u{os.getpid()}") as machine:
        with pytest.raises(AssertionError, match="AMPCORE_TRAINER_USERS are in use"):
            machine.run([sys.executable, "-c", program], both_streams=True)
        claimed.release()
        machine.run([sys.executable, "-c", program])


ENVIRONMENT = {"AMPCORE_DATABASE_URL": "sqlite:////x", "AMPCORE_REDIS_URL": "redis://h"}


def test_isolation_settings_come_from_the_environment() -> None:
    assert settings_from(WorkerSettings, ENVIRONMENT).isolation == IsolationSettings()
    variables = {
        "AMPCORE_TRAINER_ISOLATION": "required",
        "AMPCORE_TRAINER_USERS": "70000-70009",
        "AMPCORE_TRAINER_PROCESSES": "100",
        "AMPCORE_TRAINER_MEMORY_BYTES": "1000",
    }
    isolation = settings_from(WorkerSettings, ENVIRONMENT | variables).isolation
    assert isolation == IsolationSettings(IsolationMode.REQUIRED, range(70_000, 70_010), 100, 1000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AMPCORE_TRAINER_ISOLATION", "yes"),
        ("AMPCORE_TRAINER_USERS", "0-5"),
        ("AMPCORE_TRAINER_USERS", "9-5"),
        ("AMPCORE_TRAINER_USERS", "nobody"),
        ("AMPCORE_TRAINER_PROCESSES", "0"),
        ("AMPCORE_TRAINER_MEMORY_BYTES", "1G"),
    ],
)
def test_an_invalid_isolation_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"{name}: expected .* received '{value}'"):
        settings_from(WorkerSettings, ENVIRONMENT | {name: value})


# ---- Confinement


def test_a_process_with_threads_cannot_be_confined(tmp_path: Path) -> None:
    confinement = Confinement(tmp_path, tmp_path, restrict_files=True)
    from threading import Event, Thread

    end = Event()
    thread = Thread(target=end.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="process with one thread"):
            confine(confinement, [])
    finally:
        end.set()
        thread.join()


def test_a_confinement_survives_json(tmp_path: Path) -> None:
    confinement = Confinement(
        tmp_path,
        tmp_path / "datasets",
        user=5,
        restrict_files=True,
        processes=10,
        memory_bytes=20,
        file_bytes=30,
        open_files=40,
        is_sandbox=True,
        bubblewrap=Path("/usr/bin/bwrap"),
    )
    assert Confinement.from_json(json.loads(json.dumps(confinement.to_json()))) == confinement
    without = replace(confinement, user=None, processes=None, bubblewrap=None)
    assert Confinement.from_json(json.loads(json.dumps(without.to_json()))) == without
