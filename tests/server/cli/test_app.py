import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest
import redis
from typer.testing import CliRunner

import ampcore
from ampspec.documents.text import plural
from ampspec.jobs import JobSpec
from server import schema
from server.cli.app import app
from server.embedded.private_redis import start_redis
from server.migrate import migrate
from store.access import tokens
from store.database import Database
from store.jobs import attempts, jobs
from tests.folders import paths_in
from tests.processes import command_of, has_ended
from tests.waiting import DEADLINE_S

ROOT = Path(__file__).parents[3]


def command(*arguments):
    return [sys.executable, "-m", "server", *arguments]


def call(*arguments, **environment):
    """The outcome of a command, in this process."""
    return CliRunner().invoke(app, arguments, env=environment)


def test_a_scheduler_of_something_else_or_with_wrong_settings_does_not_start(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("queues: {}")
    ended = call("schedule", "pbs", "--config", str(config))
    assert ended.exit_code == 2
    assert "expected slurm or kubernetes, received 'pbs'" in ended.output
    for engine in ("slurm", "kubernetes"):
        ended = call("schedule", engine, "--config", str(config))
        assert ended.exit_code == 1
        assert f"{config}: /queues: Expected" in ended.output


def run(*arguments, **environment):
    """The outcome of a command that ends by itself, in its own process."""
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


class Up:
    """A running `ampserver up`, and what it started."""

    def __init__(self, folder, wait_until):
        self.folder = folder
        self._wait_until = wait_until
        (folder / "connection.json").unlink(missing_ok=True)  # left by a killed one
        self.process = subprocess.Popen(
            command("up", "--data", str(folder), "--port", "0"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        connection = folder / "connection.json"
        try:
            wait_until(lambda: connection.exists() or self.process.poll() is not None)
        except AssertionError:
            self.process.terminate()
            self.process.communicate()
            raise
        content = json.loads(connection.read_text())
        headers = {"Authorization": f"Bearer {content['token']}"}
        self.client = httpx.Client(base_url=content["url"], headers=headers, timeout=DEADLINE_S)
        self.url = content["url"]

    def child(self, name):
        """The process of that name, once there is one."""
        return self._wait_until(lambda: self._find(name))

    def descendants(self):
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number):
        """The output after a signal; wait until every process that it started has ended."""
        started = self.descendants()
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=DEADLINE_S)
        self.client.close()
        self._wait_until(lambda: all(map(has_ended, started)))
        return output

    def _find(self, name):
        for process in psutil.Process(self.process.pid).children():
            if name in command_of(process):
                return process
        return None


@pytest.fixture
def up(tmp_path, wait_until):
    """A running `ampserver up` in its own data folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "connection.json.old").touch()
    up = Up(folder, wait_until)
    yield up
    if up.process.poll() is None:
        up.end(signal.SIGKILL)


def test_files_in_the_current_folder_do_not_stand_in_for_the_modules_of_a_worker(tmp_path):
    for name in ("worker", "service", "store", "ampcore"):
        (tmp_path / f"{name}.py").write_text(f"print('the wrong {name}')\nraise SystemExit(0)")
    ended = subprocess.run(
        [Path(sys.executable).with_name("ampserver"), "worker"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "AMPCORE_LEASE_S": "no number"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "AMPCORE_LEASE_S: expected seconds" in ended.stderr
    assert ended.stdout == ""


@pytest.mark.slow
def test_up_starts_restarts_and_stops_all_processes(up, wait_until):
    assert up.client.get("/readyz").json() == {"status": "ready"}
    assert up.client.get("/api/v1/jobs").json()["items"] == []

    second = run("up", "--data", str(up.folder), "--port", up.url.rpartition(":")[2])
    assert second.returncode == 1
    assert f"process {up.process.pid}" in second.stderr
    assert len(second.stderr.splitlines()) == 1

    job_id = take_job(up)
    for name in ("redis-server", "worker"):
        first = up.child(name)
        first.kill()
        wait_until(lambda name=name, pid=first.pid: up.child(name).pid != pid)
    wait_until(lambda: up.client.get("/readyz").status_code == 200)
    assert reason(up, job_id) == "worker_lost"
    assert readable_by_others(up.folder) == []

    output = up.end(signal.SIGTERM)
    assert up.process.returncode == 0
    assert up.url in output
    assert f"{up.url}/api/v1/docs" in output
    assert str(up.folder / "token") in output
    assert (up.folder / "token").read_text().strip() not in output
    assert not (up.folder / "connection.json").exists()


def readable_by_others(folder):
    """The paths of a data folder that others than its owner can read or write.

    Trainers of a worker that runs as root have their own users, which must reach the datasets.
    """
    passed = {folder: 0o711, folder / "datasets": 0o755} if os.geteuid() == 0 else {}
    found = []
    for path in (folder, *paths_in(folder)):
        with suppress(FileNotFoundError):  # deleted in between
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & 0o077 and mode != passed.get(path):
                found.append(path)
    return found


def take_job(up):
    """Create a job claimed by a worker that never renews its lease."""
    database = Database(f"sqlite:///{up.folder / 'ampcore.sqlite'}")
    spec = JobSpec.parse({"model": {"kind": "mlp"}, "data": {"kind": "digits"}})
    with database.write() as session:
        job_id = jobs.create(session, spec, jobs.Origin("default")).id
        assert attempts.claim(session, job_id, "gone")
    database.close()
    return job_id


def reason(up, job_id):
    return up.client.get(f"/api/v1/jobs/{job_id}").json()["reason"]


@pytest.mark.slow
def test_a_killed_up_leaves_no_process_and_can_be_started_again(up, wait_until):
    token = (up.folder / "token").read_text()
    up.child("worker")
    job_id = take_job(up)
    up.end(signal.SIGKILL)
    assert (up.folder / "connection.json").exists()
    again = Up(up.folder, wait_until)
    assert reason(again, job_id) == "worker_lost"
    assert (up.folder / "token").read_text() == token
    again.end(signal.SIGINT)
    assert again.process.returncode == 0


@pytest.mark.slow
def test_a_second_interrupt_does_not_disturb_the_shutdown(up, wait_until):
    up.process.send_signal(signal.SIGINT)
    wait_until(lambda: "Shutting down" in (up.folder / "logs" / "server.log").read_text())
    output = up.end(signal.SIGINT)
    assert up.process.returncode == 0
    assert output.endswith("\nStopped.\n")
    assert "Traceback" not in output


def test_a_port_in_use_is_reported_in_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        outcome = run("up", "--data", str(tmp_path / "data"), "--port", port)
        alone = run("api", AMPCORE_PORT=port, AMPCORE_DATA_DIR=str(tmp_path))
    for result in (outcome, alone):
        assert result.returncode == 1
        assert len(result.stderr.splitlines()) == 1
        assert f"Port {port} on 127.0.0.1 is in use" in result.stderr
    assert not (tmp_path / "data").exists()


def test_an_invalid_setting_is_reported_in_one_line():
    outcome = run("api", AMPCORE_PORT="none")
    assert (outcome.returncode, len(outcome.stderr.splitlines())) == (1, 1)
    assert "AMPCORE_PORT" in outcome.stderr
    outcome = call("migrate", AMPCORE_DATABASE_URL="secret")
    assert (outcome.exit_code, len(outcome.stderr.splitlines())) == (1, 1)
    assert "AMPCORE_DATABASE_URL" in outcome.stderr
    assert "secret" not in outcome.stderr


UNUSABLE = {
    "postgresql://ada:secret@127.0.0.1:1/amp": "PostgreSQL database amp on 127.0.0.1:1",
    "postgresql://ada:secret@127.0.0.1:port/amp": "expected an address",
    "secret nonsense": "expected an address",
    "mysql://ada:secret@127.0.0.1/amp": "received mysql",
}


@pytest.mark.parametrize("arguments", [("migrate",), ("token", "create", "ada")], ids=" ".join)
@pytest.mark.parametrize(("url", "message"), UNUSABLE.items())
def test_an_unusable_database_is_reported_in_one_line(arguments, url, message):
    outcome = call(*arguments, AMPCORE_DATABASE_URL=url)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert len(outcome.stderr.splitlines()) == 1
    assert outcome.stderr.startswith("AMPCORE_DATABASE_URL: ")
    assert message in outcome.stderr
    assert "secret" not in outcome.stderr


def test_migrate_waits_for_a_database_that_does_not_answer_yet(new_postgres, monkeypatch):
    url, attempts_made = new_postgres(), []

    def refuse_twice(*arguments):
        attempts_made.append(arguments)
        if len(attempts_made) < 3:
            raise ConnectionRefusedError("not yet")
        return Database(*arguments)

    monkeypatch.setattr("server.cli.database.Database", refuse_twice)
    monkeypatch.setattr("server.cli.database.WAIT_INTERVAL_S", 0.0)
    outcome = call("migrate", "--wait", "600", AMPCORE_DATABASE_URL=url)
    assert outcome.exit_code == 0, outcome.stderr
    assert len(attempts_made) == 3


def test_migrate_reports_a_database_that_never_answers():
    url = "postgresql://ada:secret@127.0.0.1:1/amp"
    outcome = call("migrate", "--wait", "0.1", AMPCORE_DATABASE_URL=url)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert "PostgreSQL database amp on 127.0.0.1:1 cannot be used" in outcome.stderr


def test_creating_a_token_requires_a_migrated_database(tmp_path, new_postgres):
    file = tmp_path / "ampcore.sqlite"
    for url in (f"sqlite:///{file}", new_postgres()):
        outcome = call("token", "create", "ada", AMPCORE_DATABASE_URL=url)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert len(outcome.stderr.splitlines()) == 1
        assert "run `ampserver migrate` first" in outcome.stderr
    assert not file.exists()


def test_an_empty_folder_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = call("up", "--data", "")
    assert outcome.exit_code == 2
    assert "received an empty name" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_version_and_help_are_printed():
    assert run("--version").stdout == f"ampserver {ampcore.__version__}\n"
    assert call("-h").stdout == call("--help").stdout != ""


def test_up_refuses_a_revoked_token(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "token").write_text("amp_leaked\n")
    database = Database(f"sqlite:///{folder / 'ampcore.sqlite'}")
    migrate(f"sqlite:///{folder / 'ampcore.sqlite'}")
    with database.write() as session:
        tokens.ensure_admin(session, "up", "amp_leaked")
        tokens.create(session, "root", role="admin")
        tokens.revoke(session, tokens.get_by_secret(session, "amp_leaked"))
    database.close()
    outcome = run("up", "--data", str(folder), "--port", "0")
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[-1].startswith("The token ")
    assert "amp_leaked" not in outcome.stderr
    assert str(folder / "token") in outcome.stderr


def test_a_dry_run_lists_the_revisions_and_changes_nothing(new_postgres):
    url = new_postgres()
    listed = call("migrate", "--dry-run", AMPCORE_DATABASE_URL=url)
    assert listed.exit_code == 0
    first, *revisions = listed.stdout.splitlines()
    assert first == f"{plural(len(revisions), 'revision')} would run:"
    assert revisions[0] == "0003  Create the tables of version 0.5"
    assert revisions[-1].startswith(f"{schema.HEAD}  ")
    database = Database(url)
    with database.read() as session:
        assert schema.revision(session) is None
    database.close()
    assert call("migrate", AMPCORE_DATABASE_URL=url).exit_code == 0
    again = call("migrate", "--dry-run", AMPCORE_DATABASE_URL=url)
    assert again.stdout == "Nothing to do: the schema is up to date.\n"


def test_a_token_can_be_created_in_a_migrated_database(tmp_path):
    url = f"sqlite:///{tmp_path / 'new' / 'ampcore.sqlite'}"
    migrated = run("migrate", AMPCORE_DATABASE_URL=url)
    outcome = run("token", "create", "ada", AMPCORE_DATABASE_URL=url)
    for done in (migrated, outcome):
        assert done.returncode == 0
        assert done.stderr == f"Database: SQLite file {tmp_path / 'new' / 'ampcore.sqlite'}\n"
    database = Database(url)
    with database.read() as session:
        assert tokens.get_by_secret(session, outcome.stdout.strip()).name == "ada"
    database.close()


@pytest.mark.parametrize("proxies", ["", "10.0.0.5"])
def test_the_api_runs_alone_with_postgresql_and_redis(
    new_postgres, private_redis, tmp_path, proxies
):
    url = new_postgres()
    migrate(url)
    environment = {
        **os.environ,
        "AMPCORE_DATABASE_URL": url,
        "AMPCORE_REDIS_URL": private_redis.url,
        "AMPCORE_DATA_DIR": str(tmp_path),
        "AMPCORE_HOST": "0.0.0.0",  # noqa: S104 - to see the warning
        "AMPCORE_PORT": "0",
        "AMPCORE_TRUSTED_PROXIES": proxies,
    }
    with subprocess.Popen(
        command("api"), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as api:  # fmt: skip
        records = map(json.loads, api.stdout)  # every line of its output is JSON
        messages = [next(record["message"] for record in records if "ready" in record["message"])]
        address = messages[0].split()[-1]
        assert httpx.get(f"{address}/readyz", timeout=DEADLINE_S).json() == {"status": "ready"}
        api.send_signal(signal.SIGINT)
        messages += [record["message"] for record in records]
    assert api.returncode == 0
    assert messages[-1] == "stopped"
    # Behind a proxy of another machine, which provides TLS, the address is meant to be reachable.
    assert any("without TLS" in message for message in messages) is (not proxies)


def test_a_killed_redis_is_restarted_at_the_same_address(tmp_path, wait_until):
    server = start_redis(tmp_path, tmp_path / "redis.log")
    psutil.Process(server.pid).kill()
    server.wait()
    server.start()
    wait_until(server.wait_ready)
    with redis.Redis.from_url(server.url) as connection:
        assert connection.ping()
    server.stop(grace_s=3)
