"""The checks of `ampserver doctor`, on real databases and Redis."""

import json
import re
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import ampspec
from ampspec.api.roles import Role
from server import schema
from server.cli.app import app
from server.doctor import database_checks, machine_checks
from server.doctor.examination import examine
from server.doctor.findings import Level
from server.embedded.data_folder import DataFolder
from server.settings import Settings
from store import leaders, workers
from store.access import tokens
from store.clock import from_now
from store.tables import Allocation, SchemaCompatibility, Token, Worker


@pytest.fixture
def database_url(sqlite_url):
    """SQLite, but for what is asked of PostgreSQL."""
    return sqlite_url


@pytest.fixture
def settings(database_url, redis_url, tmp_path):
    (tmp_path / "data").mkdir()
    return Settings(database_url=database_url, redis_url=redis_url, data_dir=tmp_path / "data")


def add_worker(database, id_="w1", version=ampspec.__version__, **hardware):
    with database.write() as session:
        workers.register(
            session, id_, hostname="box", pid=7, slots=2, version=version, queues=["default"]
        )
        workers.heartbeat(session, id_, hardware=hardware)


@pytest.fixture
def healthy(database, settings):
    """A service with a server, a worker and an admin."""
    leaders.lead(database, leaders.BACKGROUND, "server1")
    with database.write() as session:
        tokens.create(session, "admin", role=Role.ADMIN)
    add_worker(database, sandbox={"kind": "bubblewrap"})
    return settings


def of_part(settings, part):
    """What is wrong with a part."""
    return [
        (finding.level, finding.message)
        for finding in examine(settings)
        if finding.part == part and finding.level is not Level.OK
    ]


def test_a_healthy_service_has_no_findings_but_good_ones(healthy):
    findings = list(examine(healthy))
    assert [finding for finding in findings if finding.level is not Level.OK] == []
    parts = {finding.part for finding in findings}
    assert {"database", "schema", "indexes", "size", "servers", "workers", "queues"} < parts
    assert {"custom code", "tokens", "redis", "artifacts", "data folder"} < parts
    assert [path for path in healthy.data_dir.rglob("*") if path.is_file()] == []


def test_the_command_prints_each_finding_with_its_remedy_and_exits_with_1(healthy, database):
    with database.write() as session:
        session.execute(sa.delete(Token))
    environment = {
        "AMPCORE_DATABASE_URL": healthy.database_url,
        "AMPCORE_REDIS_URL": healthy.redis_url,
        "AMPCORE_DATA_DIR": str(healthy.data_dir),
    }
    printed = CliRunner().invoke(app, ["doctor"], env=environment)
    assert printed.exit_code == 1
    assert (
        "PROBLEM tokens: no valid token has the role admin\n        Create one: " in printed.output
    )
    assert printed.output.endswith("1 problem and 0 warnings.\n")
    as_json = CliRunner().invoke(app, ["doctor", "--json"], env=environment)
    assert [row["part"] for row in json.loads(as_json.output) if row["level"] == "problem"] == [
        "tokens"
    ]


def test_an_empty_or_older_database_asks_for_the_migration_and_nothing_else(settings, database):
    with database.write() as session:
        session.execute(sa.update(schema.VERSIONS).values(version_num="0019"))
    assert of_part(settings, "schema") == [
        (Level.PROBLEM, f"revision 0019, expected {schema.HEAD}")
    ]
    assert "workers" not in {finding.part for finding in examine(settings)}
    with database.write() as session:
        session.execute(sa.update(schema.VERSIONS).values(version_num="9999"))
        session.execute(sa.update(SchemaCompatibility).values(oldest_revision="9999"))
    [(level, message)] = of_part(settings, "schema")
    assert (level, message.startswith("revision 9999, and this version")) == (Level.PROBLEM, True)


def test_a_database_that_is_not_there_is_one_problem(tmp_path, redis_url):
    missing = Settings(database_url=f"sqlite:///{tmp_path}/a.sqlite", redis_url=redis_url)
    assert of_part(missing, "database")[0][1].endswith("a.sqlite does not exist")
    assert not (tmp_path / "a.sqlite").exists()
    environment = {"AMPCORE_DATA_DIR": str(tmp_path / "none"), "AMPCORE_REDIS_URL": redis_url}
    printed = CliRunner().invoke(app, ["doctor"], env=environment)
    assert (printed.exit_code, "there is no server here" in printed.output) == (1, True)
    assert "Start a server with `ampserver up`" in printed.output
    assert printed.output.endswith("1 problem and 0 warnings.\n")
    assert not (tmp_path / "none").exists()
    (tmp_path / "b.sqlite").write_bytes(b"no database" * 100)
    damaged = Settings(database_url=f"sqlite:///{tmp_path}/b.sqlite", redis_url=redis_url)
    assert "cannot be read" in of_part(damaged, "database")[0][1]
    secret = "postgresql://ampcore:hunter2@127.0.0.1:1/ampcore"
    unreachable = Settings(database_url=secret, redis_url=redis_url)
    [(level, message)] = of_part(unreachable, "database")
    assert level is Level.PROBLEM
    assert "hunter2" not in message


def test_a_missing_index_is_named(healthy, database):
    with database.write() as session:
        session.execute(sa.text("DROP INDEX ix_jobs_turn"))
    assert of_part(healthy, "indexes") == [(Level.PROBLEM, "missing: ix_jobs_turn")]


def test_without_a_server_nobody_does_the_background_work(healthy, database):
    leaders.resign(database, leaders.BACKGROUND, "server1")
    [(level, message)] = of_part(healthy, "servers")
    assert level is Level.PROBLEM
    assert message.startswith("no server does the background work")


def test_workers_of_another_version_and_without_a_storage_are_named(healthy, database):
    add_worker(database, "w2", "0.5.0", storage_error="it is full.")
    findings = of_part(healthy, "workers")
    assert [level for level, _ in findings] == [Level.WARNING, Level.PROBLEM]
    assert "of which 1 of version 0.5.0" in findings[0][1]
    assert findings[1][1] == "worker w2 on box takes no job: it is full."


def test_a_service_without_workers_says_so(healthy, database):
    with database.write() as session:
        session.execute(sa.delete(Worker))
    assert of_part(healthy, "workers") == [(Level.WARNING, "no worker is online")]
    assert "custom code" not in {finding.part for finding in examine(healthy)}


def test_a_queue_with_jobs_that_nobody_serves_is_named(healthy, make_job):
    make_job(runtime={"queue": "gpu"})
    make_job(runtime={"queue": "gpu"})
    make_job()
    assert of_part(healthy, "queues") == [(Level.WARNING, "no worker serves 'gpu' (2 jobs)")]


def test_a_worker_that_drains_and_an_allocation_that_has_ended_serve_nobody(
    healthy, database, make_job
):
    job = make_job()
    assert of_part(healthy, "queues") == []
    with database.write() as session:
        workers.request_drain(session, "w1")
    assert of_part(healthy, "queues") == [(Level.WARNING, "no worker serves 'default' (1 job)")]
    values = {"name": "ampcore-a-1-1", "attempt": 1, "number": 1, "queue": "default"}
    with database.write() as session:
        session.add(Allocation(job_id=job.id, engine="slurm", state="PENDING", **values))
    assert of_part(healthy, "queues") == []
    with database.write() as session:
        session.execute(sa.update(Allocation).values(ended_at=from_now(0)))
    assert len(of_part(healthy, "queues")) == 1


def test_a_fleet_without_a_sandbox_says_what_is_missing(healthy, database):
    with database.write() as session:
        lacking = {"sandbox": {"kind": None, "missing": ["bubblewrap"]}}
        workers.heartbeat(session, "w1", hardware=lacking)
    assert of_part(healthy, "custom code") == [(Level.WARNING, "no worker may run it: bubblewrap")]


def test_the_remedy_for_custom_code_fits_the_reason(healthy, database):
    for reason, remedy in (
        ("AMPCORE_BUNDLE_SANDBOX is off.", "Remove AMPCORE_BUNDLE_SANDBOX from the settings"),
        ("AMPCORE_BUNDLE_USER_NAMESPACE is required, and …", "Give the workers a user namespace"),
        ("… the program bwrap is not installed …", "Install bubblewrap"),
        ("The sandbox bubblewrap is not available: it fails.", "docs/guides/operating.md"),
    ):
        with database.write() as session:
            lacking = {"sandbox": {"kind": None, "missing": [reason]}}
            workers.heartbeat(session, "w1", hardware=lacking)
        [remedies] = [row.remedy for row in examine(healthy) if row.part == "custom code"]
        assert remedy in remedies
        assert ("Install bubblewrap" in remedies) == ("bwrap" in reason)


def test_an_admin_token_that_ends_soon_is_a_warning(healthy, database):
    with database.write() as session:
        session.execute(sa.update(Token).values(expires_at=from_now(86_400)))
    [(level, message)] = of_part(healthy, "tokens")
    assert level is Level.WARNING
    assert message.startswith("the last admin token ends on ")


def test_a_redis_that_is_off_is_named_without_its_password(healthy):
    off = healthy.model_copy(update={"redis_url": "redis://:hunter2@127.0.0.1:1/0"})
    [(level, message)] = of_part(off, "redis")
    assert level is Level.PROBLEM
    assert "hunter2" not in message


def test_the_redis_of_an_embedded_stack_is_its_own(healthy):
    values = healthy.model_dump(include={"database_url", "data_dir"})
    folder = DataFolder(healthy.data_dir)
    folder.create()
    with folder.lock():
        assert of_part(Settings(**values), "redis") == []
        assert [level for level, _ in of_part(healthy, "redis")] == []


def test_a_redis_that_deletes_messages_is_a_warning(healthy, monkeypatch):
    facts = {"redis_version": "7", "maxmemory": 1, "maxmemory_policy": "allkeys-lru"}
    monkeypatch.setattr(machine_checks.redis.Redis, "info", lambda self: facts)
    [(level, message)] = of_part(healthy, "redis")
    assert level is Level.WARNING
    assert "allkeys-lru" in message


def test_a_storage_that_cannot_be_used_and_a_full_disk_are_named(healthy, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    broken = healthy.model_copy(update={"artifacts_url": (tmp_path / "file").as_uri()})
    assert of_part(broken, "artifacts")[0][0] is Level.PROBLEM
    usage = SimpleNamespace(total=100 * 2**30, free=2**30)
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda folder: usage)
    [(level, message)] = of_part(healthy, "data folder")
    assert level is Level.WARNING
    assert message.startswith("1.0 GiB of 100.0 GiB are free for ")


class TestPostgresql:
    @pytest.fixture
    def database_url(self, postgres_url):
        return postgres_url

    def test_an_index_that_an_interrupted_migration_left_is_named(self, healthy, database):
        statement = sa.text(
            "UPDATE pg_index SET indisvalid = :is_valid WHERE indexrelid = 'ix_jobs_turn'::regclass"
        )
        with database.write() as session:
            session.execute(statement, {"is_valid": False})
        try:
            findings = of_part(healthy, "indexes")
        finally:  # the next test has the same tables
            with database.write() as session:
                session.execute(statement, {"is_valid": True})
        assert findings == [(Level.PROBLEM, "not valid, and so not used: ix_jobs_turn")]

    def test_a_clock_that_differs_is_a_warning_with_its_direction(self, healthy, monkeypatch):
        for offset_s, direction in ((3600, "behind"), (-3600, "ahead of")):
            moment = from_now(offset_s)
            monkeypatch.setattr(database_checks, "now", lambda moment=moment: moment)
            [(level, message)] = of_part(healthy, "clock")
            assert level is Level.WARNING
            assert re.fullmatch(
                rf"this machine is 3[56]\d\d\.\d s {direction} the database", message
            )

    def test_dead_rows_and_many_connections_are_warnings(self, healthy, database, monkeypatch):
        monkeypatch.setattr(database_checks, "CONNECTIONS_SHARE", 0.0)
        assert of_part(healthy, "connections")[0][0] is Level.WARNING
        monkeypatch.setattr(
            database_checks, "DEAD_ROWS", sa.text("SELECT 'jobs' AS relname, 7 AS n_dead_tup")
        )
        assert of_part(healthy, "vacuum") == [(Level.WARNING, "jobs has 7 dead rows")]

    def test_a_healthy_service_has_no_findings_but_good_ones(self, healthy):
        findings = list(examine(healthy))
        assert [finding for finding in findings if finding.level is not Level.OK] == []
        assert {"vacuum", "connections", "clock"} < {finding.part for finding in findings}
