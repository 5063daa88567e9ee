import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from ampspec.jobs import State
from server.serve import exposure_warning, listen, url_of
from store.access import projects, tokens
from store.database import Database
from tests.databases import ON_POSTGRESQL
from tests.waiting import DEADLINE_S, wait_until

ROOT = Path(__file__).parents[2]
API_WITHOUT_SHUTDOWN_TIMEOUT = """
from server.cli.app import main
from server import serve

serve.SHUTDOWN_S = 10**6  # waiting for open requests would never end
main()
"""


@pytest.mark.parametrize(
    ("host", "is_public"),
    [("127.0.0.1", False), ("::1", False), ("0.0.0.0", True)],  # noqa: S104
)
def test_listening_on_a_public_address_gives_a_warning_in_a_block(host, is_public):
    with listen(host, 0) as listener:
        warning = exposure_warning(listener)
        assert (warning is not None) is is_public
        if warning is not None:
            lines = warning.splitlines()
            assert "TLS" in warning
            assert host in warning
            assert len({len(line) for line in lines}) == 1  # lines of one length
            assert set(lines[0]) == {"!"}
        assert url_of(listener).startswith(("http://127.0.0.1:", "http://[::1]:"))


def test_keepalive_is_enabled_for_connections():
    with listen("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


class RunningApi:
    """`ampserver api` as a process."""

    def __init__(self, database_url, redis_url, folder, **environment):
        self.log = folder / "api.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", API_WITHOUT_SHUTDOWN_TIMEOUT, "api"],
                cwd=ROOT, stdout=log, stderr=log,
                env={
                    **os.environ, "AMPCORE_DATABASE_URL": database_url,
                    "AMPCORE_REDIS_URL": redis_url, "AMPCORE_DATA_DIR": str(folder),
                    "AMPCORE_PORT": "0", **environment,
                },
            )  # fmt: skip
        ready = re.compile(r"ampcore is ready at (http://[\d.]+:\d+)[\s\"]")
        self.url = wait_until(lambda: ready.search(self.log.read_text()))[1]
        self.port = int(self.url.rpartition(":")[2])

    def lines(self):
        """The JSON lines of its log."""
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def messages(self):
        return [line["message"] for line in self.lines()]

    def stop(self):
        """Send SIGTERM, and wait until the process has ended."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 0


@contextmanager
def starting(redis_url, folder):
    """Returns a function that starts the API alone; it is killed at the end."""
    with ExitStack() as stack:

        def start(database_url, **environment):
            api = RunningApi(database_url, redis_url, folder, **environment)
            stack.callback(api.process.communicate)
            stack.callback(api.process.kill)
            return api

        yield start


@pytest.fixture
def start(tmp_path, redis_url):
    """Start the API alone; it is killed after the test."""
    with starting(redis_url, tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def start_with_token(private_redis, migrated_sqlite, tmp_path_factory):
    """Starts an API whose database has a token, for several tests: that takes two seconds."""
    with ExitStack() as stack:

        def start(**environment):
            folder = tmp_path_factory.mktemp("api")
            url = f"sqlite:///{shutil.copy(migrated_sqlite, folder / 'ampcore.sqlite')}"
            database = Database(url)
            with database.write() as session:
                projects.ensure(session, "default")
                token = tokens.create(session, "ada", role="admin")
            database.close()
            api = stack.enter_context(starting(private_redis.url, folder))(url, **environment)
            api.token = token
            return api

        yield start


@pytest.fixture(scope="module")
def api(start_with_token):
    """A running API with a variable of uvicorn that it must ignore."""
    return start_with_token(FORWARDED_ALLOW_IPS="*")


@pytest.fixture(scope="module")
def log_of_stopped_api(start_with_token):
    """All that an API has logged as text."""
    api = start_with_token(AMPCORE_LOG_FORMAT="text")
    api.stop()
    return api.log.read_text()


@ON_POSTGRESQL
def test_many_open_streams_delay_neither_requests_nor_the_shutdown(
    *, database_url, database, start, make_job, wait_until
):
    job = make_job(State.RUNNING)
    with database.write() as session:
        token = tokens.create(session, "ada", role="admin")
    api = start(database_url)
    head = (
        f"GET /api/v1/jobs/{job.id}/logs?follow=true HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {token}\r\nX-Request-ID: mine\r\n\r\n"
    )
    with ExitStack() as stack:
        readers = []
        for _ in range(60):  # more than threads and database connections
            reader = socket.create_connection(("127.0.0.1", api.port), timeout=DEADLINE_S)
            readers.append(stack.enter_context(reader))
            reader.sendall(head.encode())
        for reader in readers:
            assert reader.recv(12) == b"HTTP/1.1 200"
        answer = httpx.get(f"{api.url}/readyz", timeout=DEADLINE_S)
        assert answer.status_code == 200
        api.stop()  # although no stream has ended
        for reader in readers:
            received = b"".join(iter(lambda reader=reader: reader.recv(65_536), b""))
            assert received.endswith(b"0\r\n\r\n")  # a complete response
    streams = [line for line in api.lines() if line.get("request_id") == "mine"]
    assert len(streams) == 60
    assert {line["status"] for line in streams} == {200}
    assert token not in api.log.read_text()
    assert [line for line in api.lines() if line["level"] == "ERROR"] == []


def test_a_server_without_a_token_logs_how_to_create_one(sqlite_url, start, wait_until):
    api = start(sqlite_url)
    wait_until(lambda: any("ampserver token create" in line for line in api.messages()))
    assert httpx.get(f"{api.url}/api/v1/jobs", timeout=DEADLINE_S).status_code == 401
    api.stop()
    assert "Shutting down" in api.messages()  # its log is JSON


def test_the_log_is_text_if_that_is_configured(log_of_stopped_api):
    assert "{" not in log_of_stopped_api
    assert "INFO uvicorn.error: Shutting down" in log_of_stopped_api


def test_a_server_with_a_token_does_not_log_how_to_create_one(log_of_stopped_api):
    assert "ampserver token create" not in log_of_stopped_api


def test_malformed_http_gets_problem_json(api):
    with socket.create_connection(("127.0.0.1", api.port), timeout=DEADLINE_S) as client:
        client.sendall(b"nonsense\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer


def test_the_forwarded_allow_ips_variable_of_uvicorn_is_ignored(api):
    """Fails if uvicorn reads it: with `*` it trusts the entry that the client sent."""
    headers = {
        "X-Forwarded-For": "203.0.113.9, 198.51.100.7",
        "Authorization": f"Bearer {api.token}",
    }
    with httpx.Client(base_url=api.url, headers=headers, timeout=DEADLINE_S) as client:
        assert client.post("/api/v1/session", json={"token": api.token}).status_code == 201
        entry = client.get("/api/v1/audit").json()["items"][0]
    assert entry["address"] == "198.51.100.7"
    assert any("AMPCORE_TRUSTED_PROXIES" in message for message in api.messages())
