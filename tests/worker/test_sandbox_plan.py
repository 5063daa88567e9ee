"""Which sandbox a worker chooses, what it does without one, and its settings."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ampspec.jobs import Reason, State
from infra.isolation import landlock, seccomp
from infra.settings import SettingsInvalid
from store.database import Database
from store.jobs import attempts, jobs
from store.tables import Job
from tests.environment import settings_from
from worker.attempt.attempt import JobAttempt
from worker.settings import WorkerSettings
from worker.tasks import run_queued_jobs
from worker.trainer import sandbox_plan
from worker.trainer.isolation_plan import available_memory_bytes
from worker.trainer.sandbox import SandboxKind, needs_sandbox
from worker.trainer.sandbox_plan import (
    NO_USER_NAMESPACE,
    SandboxMode,
    SandboxPlan,
    SandboxSettings,
    UserNamespaceMode,
    plan_sandbox,
)

USERS = range(60_920, 60_925)
ENVIRONMENT = {"AMPCORE_DATABASE_URL": "sqlite:////x", "AMPCORE_REDIS_URL": "redis://h"}


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., SandboxPlan]:
    def make(mode: SandboxMode = SandboxMode.AUTO, **limits: Any) -> SandboxPlan:
        return plan_sandbox(
            SandboxSettings(mode, **limits),
            users=USERS,
            parent=tmp_path / "scratch" / "w",
            datasets=tmp_path / "datasets",
        )

    return make


# ---- Choose


def test_off_means_no_sandbox(plan: Callable[..., SandboxPlan]) -> None:
    assert plan(SandboxMode.OFF).describe() == {
        "kind": None,
        "missing": ["AMPCORE_BUNDLE_SANDBOX is off."],
    }


@pytest.mark.parametrize("text", ["         0          0 4294967295\n", None])
def test_where_a_user_namespace_is_required_the_one_of_the_machine_has_no_sandbox(
    tmp_path: Path, text: str | None
) -> None:
    uid_map = tmp_path / "uid_map"
    if text is not None:
        uid_map.write_text(text)
    settings = SandboxSettings(user_namespace=UserNamespaceMode.REQUIRED)
    planned = plan_sandbox(
        settings, users=USERS, parent=tmp_path, datasets=tmp_path, uid_map=uid_map
    )
    assert planned.sandbox is None
    assert planned.missing == (NO_USER_NAMESPACE,)


def test_a_user_namespace_that_is_required_changes_nothing_else(
    plan: Callable[..., SandboxPlan], tmp_path: Path
) -> None:
    uid_map = tmp_path / "uid_map"
    uid_map.write_text("         0    1000000      65536\n")
    planned = plan_sandbox(
        SandboxSettings(user_namespace=UserNamespaceMode.REQUIRED),
        users=USERS,
        parent=tmp_path / "scratch" / "w",
        datasets=tmp_path / "datasets",
        uid_map=uid_map,
    )
    assert planned.describe() == plan().describe()


def test_without_bwrap_the_plan_says_so(
    plan: Callable[..., SandboxPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    planned = plan(SandboxMode.BUBBLEWRAP)
    assert planned.sandbox is None
    assert "the program bwrap is not installed" in " ".join(planned.missing)


def test_a_sandbox_that_fails_its_trial_is_not_used(
    plan: Callable[..., SandboxPlan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    planned = plan(SandboxMode.BUBBLEWRAP)
    assert planned.sandbox is None
    assert "No permissions to create new namespace" in " ".join(planned.missing)


def test_without_a_filter_of_system_calls_there_is_no_sandbox(
    plan: Callable[..., SandboxPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seccomp, "is_supported", lambda: False)
    planned = plan()
    assert planned.sandbox is None
    assert len(planned.missing) == len(SandboxKind)
    assert all("with seccomp" in sentence for sentence in planned.missing)


def test_landlock_needs_tcp_rules(
    plan: Callable[..., SandboxPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 3)
    assert "no Landlock 4" in " ".join(plan(SandboxMode.LANDLOCK).missing)


def test_without_users_for_trainers_landlock_is_no_sandbox(
    plan: Callable[..., SandboxPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_plan, "can_run_as", lambda _users: False)
    planned = plan(SandboxMode.LANDLOCK)
    assert planned.sandbox is None
    words = "as another user" if os.geteuid() == 0 else "a worker that is root"
    assert words in " ".join(planned.missing)


@pytest.mark.needs("other users")
def test_landlock_needs_folders_that_other_users_can_enter(
    plan: Callable[..., SandboxPlan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Python itself may be in a folder that others cannot enter, which would be named first.
    monkeypatch.setattr(sandbox_plan, "program_folders", list)
    tmp_path.chmod(0o700)
    assert f"cannot enter {tmp_path}" in " ".join(plan(SandboxMode.LANDLOCK).missing)


@pytest.mark.needs("sandbox")
def test_the_plan_is_reported_with_its_limits(plan: Callable[..., SandboxPlan]) -> None:
    planned = plan(memory_bytes=10, processes=20, disk_bytes=30)
    described = planned.describe()
    limits = {"memory_bytes", "processes", "disk_bytes", "memory_cgroup"}
    assert {"kind", "missing", *limits} == described.keys()
    assert (described["memory_bytes"], described["processes"]) == (10, 20)
    assert described["disk_bytes"] == 30


@pytest.mark.needs("sandbox")
def test_the_memory_of_the_machine_is_divided_by_the_slots(tmp_path: Path) -> None:
    """Before, two jobs together could use one and a half times the memory of the machine."""
    limits = [
        plan_sandbox(
            SandboxSettings(memory_bytes=memory_bytes),
            users=USERS,
            parent=tmp_path / "scratch" / "w",
            datasets=tmp_path / "datasets",
            slots=slots,
        ).describe()["memory_bytes"]
        for memory_bytes, slots in ((None, 1), (None, 4), (1000, 4))
    ]
    assert limits == [
        int(available_memory_bytes() * 0.75),
        int(available_memory_bytes() * 0.75 / 4),
        1000,
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"model": {"kind": "bundle", "bundle": "sha256:x"}}, True),
        ({"model": {"kind": "layers"}}, False),
        ({"model": None}, False),
        ({}, False),
    ],
)
def test_a_job_with_its_custom_code_needs_a_sandbox(spec: dict[str, Any], expected: bool) -> None:
    assert needs_sandbox(spec) is expected


# ---- Without a sandbox


@pytest.fixture
def make_bundle_job(make_job: Callable[..., Any]) -> Callable[[], Job]:
    """Creates a job with a bundle that is not stored."""

    def make() -> Job:
        model = {"kind": "bundle", "bundle": f"sha256:{64 * '0'}"}
        job: Job = make_job(model=model, runtime={"max_attempts": 1})
        return job

    return make


def test_a_worker_without_a_sandbox_leaves_jobs_with_code_to_others(
    make_bundle_job: Callable[[], Job],
    make_job: Callable[..., Any],
    make_context: Callable[..., Any],
    database: Database,
) -> None:
    job, ordinary = make_bundle_job(), make_job()
    run_queued_jobs(make_context("good"))
    with database.read() as session:
        rows = [jobs.get(session, row.id) for row in (job, ordinary)]
    assert [row.state for row in rows if row is not None] == [State.QUEUED, State.SUCCEEDED]


def test_a_worker_with_a_sandbox_claims_jobs_with_code(
    make_bundle_job: Callable[[], Job], database: Database
) -> None:
    job = make_bundle_job()
    with database.write() as session:
        without = attempts.claim_next(session, "w", ["default"], with_bundles=False)
        claimed = attempts.claim_next(session, "w", ["default"])
    assert without is None
    assert claimed is not None
    assert claimed.id == job.id


def test_a_job_with_code_that_reaches_a_worker_without_a_sandbox_fails_with_the_reason(
    make_bundle_job: Callable[[], Job],
    make_context: Callable[..., Any],
    database: Database,
    tmp_path: Path,
) -> None:
    job = make_bundle_job()
    context = make_context("good")
    with database.write() as session:
        claimed = attempts.claim(session, job.id, context.worker_id)
    assert claimed is not None
    JobAttempt(context, claimed, 0.0, tmp_path / "attempt").run()
    with database.read() as session:
        ended = jobs.get(session, job.id)
    assert ended is not None
    assert (ended.state, ended.reason) == ("failed", Reason.NO_SANDBOX)
    assert "its worker has no sandbox to run it in. AMPCORE_BUNDLE_SANDBOX is off." in ended.message


# ---- Settings


def test_sandbox_settings_come_from_the_environment() -> None:
    assert settings_from(WorkerSettings, ENVIRONMENT).sandbox == SandboxSettings()
    variables = {
        "AMPCORE_BUNDLE_SANDBOX": "landlock",
        "AMPCORE_BUNDLE_MEMORY_BYTES": "1000",
        "AMPCORE_BUNDLE_PROCESSES": "20",
        "AMPCORE_BUNDLE_DISK_BYTES": "3000",
        "AMPCORE_BUNDLE_USER_NAMESPACE": "required",
    }
    sandbox = settings_from(WorkerSettings, ENVIRONMENT | variables).sandbox
    assert sandbox == SandboxSettings(
        SandboxMode.LANDLOCK, 1000, 20, 3000, UserNamespaceMode.REQUIRED
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AMPCORE_BUNDLE_SANDBOX", "docker"),
        ("AMPCORE_BUNDLE_MEMORY_BYTES", "1G"),
        ("AMPCORE_BUNDLE_PROCESSES", "0"),
        ("AMPCORE_BUNDLE_DISK_BYTES", "-1"),
        ("AMPCORE_BUNDLE_USER_NAMESPACE", "yes"),
    ],
)
def test_an_invalid_sandbox_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"{name}: expected .* received '{value}'"):
        settings_from(WorkerSettings, ENVIRONMENT | {name: value})
