"""A real PostgreSQL that is unreachable for a while, or for good."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import make_url

from ampspec.jobs import State
from infra.storage import Storage
from store.database import Database
from store.leases import SELF_FENCE_S
from tests.processes import has_ended
from tests.waiting import DEADLINE_S
from tests.worker.conftest import Running, Start
from worker.attempt.write_buffer import WriteBuffer

Wait = Callable[[Running], None]
Allow = Callable[[int], None]


class CuttableProxy:
    """A TCP proxy to a server; `cut` breaks its connections."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)
        self._open: list[socket.socket] = []
        self._is_cut = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        port = self._listener.getsockname()[1]
        address = self._url.set(host="127.0.0.1", port=port, query={})
        return address.render_as_string(hide_password=False)

    def cut(self) -> None:
        """Break every connection, and refuse new ones."""
        self._is_cut.set()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        self._is_cut.clear()

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_cut.is_set():
                    client.close()
                    continue
                threading.Thread(target=self._forward, args=[client], daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with suppress(OSError), client, self._connect() as server:
            self._open += [client, server]
            while True:
                for end in select.select([client, server], [], [])[0]:
                    if not (data := end.recv(65_536)):
                        return
                    (server if end is client else client).sendall(data)

    def _connect(self) -> socket.socket:
        folder = self._url.query.get("host")
        port = self._url.port or 5432
        if folder is None:
            return socket.create_connection((self._url.host or "127.0.0.1", port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{folder}/.s.PGSQL.{port}")
        return server


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[CuttableProxy]:
    proxy = CuttableProxy(postgres_url)
    yield proxy
    proxy.close()


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    """PostgreSQL, connected without the proxy."""
    database = Database(postgres_url)
    yield database
    database.close()


@pytest.fixture
def proxied_database(proxy: CuttableProxy) -> Iterator[Database]:
    """PostgreSQL through the proxy, as the worker uses it."""
    database = Database(proxy.url)
    yield database
    proxy.restore()
    database.close()


@pytest.fixture
def allow(tmp_path: Path) -> Allow:
    """Let the trainer write this many blocks in total."""
    folder = tmp_path / "datasets"
    folder.mkdir()

    def write(blocks: int) -> None:
        unfinished = folder / "allowed.new"
        unfinished.write_text(str(blocks))
        unfinished.rename(folder / "allowed")

    return write


def test_training_continues_during_an_outage_and_every_step_is_stored_once(
    *,
    start: Start,
    proxy: CuttableProxy,
    proxied_database: Database,
    until_running: Wait,
    allow: Allow,
    wait_until: Callable[..., Any],
) -> None:
    allow(1)
    running = start("trains_as_allowed", lease_s=60.0, database=proxied_database)
    until_running(running)
    trainer = running.process()
    proxy.cut()
    allow(30)
    wait_until(lambda: has_ended(trainer))
    assert running.job().step == 10
    proxy.restore()
    job = running.ended()
    assert (job.state, job.step) == (State.SUCCEEDED, 300)
    assert running.steps() == list(range(300))
    assert running.context.metrics.reading()["steps_total"] == 300


def test_many_outages_lose_and_duplicate_nothing(
    *,
    start: Start,
    proxy: CuttableProxy,
    proxied_database: Database,
    until_running: Wait,
    allow: Allow,
    wait_until: Callable[..., Any],
) -> None:
    allow(1)
    running = start("trains_as_allowed", lease_s=60.0, database=proxied_database)
    until_running(running)
    for blocks in range(2, 31):
        proxy.cut()
        allow(blocks)
        proxy.restore()
        wait_until(partial(has_stored, running, 10 * blocks))
    assert running.ended().state == State.SUCCEEDED
    assert running.steps() == list(range(300))


def has_stored(running: Running, steps: int) -> bool:
    return running.job().step >= steps


def test_a_full_write_buffer_blocks_the_trainer_and_loses_nothing(
    *,
    start: Start,
    proxy: CuttableProxy,
    proxied_database: Database,
    tmp_path: Path,
    allow: Allow,
    wait_until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    wait_for_room = WriteBuffer.wait_for_room

    def counted(buffer: WriteBuffer, timeout_s: float) -> None:
        waits.append(timeout_s)
        wait_for_room(buffer, timeout_s)

    monkeypatch.setattr(WriteBuffer, "wait_for_room", counted)
    written = tmp_path / "datasets" / "written"
    running = start(
        "writes_large_frames", buffer_bytes=10**6, lease_s=60.0, database=proxied_database
    )
    wait_until(lambda: running.job().state == State.RUNNING)
    proxy.cut()
    allow(100)
    wait_until(lambda: len(waits) > 2, "the worker stops reading frames")
    wait_until(lambda: int(written.read_text()) >= 10)
    # One million bytes in the buffer, one frame in flight, and the contents of the pipe.
    assert int(written.read_text()) < 20
    proxy.restore()
    assert running.ended().state == State.SUCCEEDED
    assert running.steps() == list(range(1000))


def test_a_long_outage_makes_the_worker_fence_itself(
    start: Start,
    proxy: CuttableProxy,
    proxied_database: Database,
    until_running: Wait,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = start("ignores_sigterm", grace_s=10 * DEADLINE_S, database=proxied_database)
    until_running(running)
    trainer = running.process()
    proxy.cut()
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 2 * SELF_FENCE_S)
    monkeypatch.setattr("worker.attempt.telemetry_writer.time", later)
    job = running.ended()
    assert has_ended(trainer)
    assert job.state == State.RUNNING  # nothing could be written; the lease expires


def test_a_worker_without_its_database_can_be_shut_down(
    start: Start,
    proxy: CuttableProxy,
    proxied_database: Database,
    until_running: Wait,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.shutdown.DATABASE_TIMEOUT_S", 0.2)
    running = start("ends_on_sigterm", grace_s=1.0, database=proxied_database)
    until_running(running)
    trainer = running.process()
    proxy.cut()
    running.context.shutting_down.set()
    assert running.ended().state == State.RUNNING
    assert has_ended(trainer)


def test_a_worker_that_loses_its_database_while_it_stores_the_report_can_be_shut_down(
    *,
    start: Start,
    proxy: CuttableProxy,
    proxied_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Cuts(Storage):
        """Loses the database once the first file is stored and not recorded yet."""

        def put(self, *args: Any, **options: Any) -> Any:
            stored = super().put(*args, **options)
            assert is_started.wait(DEADLINE_S)
            proxy.cut()
            running.context.shutting_down.set()
            return stored

    monkeypatch.setattr("worker.shutdown.DATABASE_TIMEOUT_S", 0.2)
    storage = Cuts((tmp_path / "cuts").as_uri())
    is_started = threading.Event()
    running = start("good", database=proxied_database, storage=storage)
    is_started.set()
    assert running.ended().state == State.RUNNING
