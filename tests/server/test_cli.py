import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest
import redis

from server.migrate import migrate
from server.private_redis import start_redis
from store import tokens
from store.database import Database

ROOT = Path(__file__).parents[2]
LIMIT_S = 40


def command(*arguments):
    return [sys.executable, "-m", "server", *arguments]


def run(*arguments, **environment):
    """The outcome of a command that ends by itself."""
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


class Up:
    """A running `ampserver up`, and what it started."""

    def __init__(self, folder, wait_until):
        self.folder = folder
        self._wait_until = wait_until
        self.process = subprocess.Popen(
            command("up", "--data", str(folder), "--port", "0"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        connection = folder / "connection.json"
        wait_until(lambda: connection.exists() or self.process.poll() is not None)
        told = json.loads(connection.read_text())
        headers = {"Authorization": f"Bearer {told['token']}"}
        self.client = httpx.Client(base_url=told["url"], headers=headers, timeout=LIMIT_S)
        self.url = told["url"]

    def child(self, name):
        """The process of that name, once there is one."""
        return self._wait_until(lambda: self._find(name))

    def descendants(self):
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number):
        """The output after a signal; nothing that it started may be left."""
        started = self.descendants()
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=LIMIT_S)
        self.client.close()
        _, alive = psutil.wait_procs(started, timeout=LIMIT_S / 4)
        assert alive == []
        return output

    def _find(self, name):
        for process in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):  # it ended in between
                if name in " ".join(process.cmdline()):
                    return process
        return None


@pytest.fixture
def up(tmp_path, wait_until):
    """A stack in a folder of its own."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "connection.json.old").touch()
    up = Up(folder, wait_until)
    yield up
    if up.process.poll() is None:
        up.end(signal.SIGKILL)


def test_up_runs_everything_mends_it_and_leaves_nothing(up, wait_until):
    assert up.client.get("/readyz").json() == {"status": "ready"}
    assert up.client.get("/api/v1/jobs").json()["items"] == []

    second = run("up", "--data", str(up.folder), "--port", "0")
    assert second.returncode == 1
    assert f"process {up.process.pid}" in second.stderr
    assert len(second.stderr.splitlines()) == 1

    for name in ("redis-server", "worker"):
        first = up.child(name)
        first.kill()
        wait_until(lambda name=name, pid=first.pid: up.child(name).pid != pid)
    wait_until(lambda: up.client.get("/readyz").status_code == 200)

    output = up.end(signal.SIGTERM)
    assert up.process.returncode == 0
    assert up.url in output
    assert f"{up.url}/api/v1/docs" in output
    assert str(up.folder / "token") in output
    assert (up.folder / "token").read_text().strip() not in output
    assert not (up.folder / "connection.json").exists()


def test_up_that_is_killed_takes_everything_with_it_and_starts_again(up, wait_until):
    token = (up.folder / "token").read_text()
    up.child("worker")
    up.end(signal.SIGKILL)
    assert (up.folder / "connection.json").exists()
    (up.folder / "connection.json").unlink()
    again = Up(up.folder, wait_until)
    assert again.client.get("/api/v1/version").status_code == 200
    assert (up.folder / "token").read_text() == token
    again.end(signal.SIGINT)
    assert again.process.returncode == 0


def test_a_port_in_use_is_one_clear_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        outcome = run("up", "--data", str(tmp_path / "data"), "--port", port)
        alone = run("api", AMPCORE_PORT=port, AMPCORE_DATA_DIR=str(tmp_path))
    for result in (outcome, alone):
        assert result.returncode == 1
        assert len(result.stderr.splitlines()) == 1
        assert f"Port {port} on 127.0.0.1 is in use" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_setting_that_makes_no_sense_is_one_clear_sentence():
    outcome = run("api", AMPCORE_PORT="none")
    assert (outcome.returncode, len(outcome.stderr.splitlines())) == (1, 1)
    assert "AMPCORE_PORT" in outcome.stderr


def test_a_made_token_opens_a_migrated_database(tmp_path):
    url = f"sqlite:///{tmp_path / 'new' / 'ampcore.sqlite'}"
    assert run("migrate", AMPCORE_DATABASE_URL=url).returncode == 0
    outcome = run("token", "create", "ada", AMPCORE_DATABASE_URL=url)
    assert outcome.returncode == 0
    database = Database(url)
    with database.read() as session:
        assert tokens.verify(session, outcome.stdout.strip()).name == "ada"
    database.close()


def test_the_api_alone_serves_postgresql_and_redis(new_postgres, private_redis, tmp_path):
    url = new_postgres()
    migrate(url)
    environment = {
        **os.environ,
        "AMPCORE_DATABASE_URL": url,
        "AMPCORE_REDIS_URL": private_redis.url,
        "AMPCORE_DATA_DIR": str(tmp_path),
        "AMPCORE_HOST": "0.0.0.0",  # noqa: S104 - to see the warning
        "AMPCORE_PORT": "0",
    }
    api = subprocess.Popen(
        command("api"), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        address = api.stdout.readline().split()[-1]
        assert httpx.get(f"{address}/readyz").json() == {"status": "ready"}
    finally:
        api.send_signal(signal.SIGINT)
        _, errors = api.communicate(timeout=LIMIT_S)
    assert api.returncode == 0
    assert "TLS" in errors
    assert "Traceback" not in errors


def test_a_killed_redis_comes_back_at_the_same_address(tmp_path, wait_until):
    server = start_redis(tmp_path, tmp_path / "redis.log")
    psutil.Process(server.pid).kill()
    server.wait()
    server.start()
    assert server.wait_ready()
    with redis.Redis.from_url(server.url) as connection:
        assert connection.ping()
    server.stop(grace_s=3)
