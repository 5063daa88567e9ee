"""A real PostgreSQL that cannot be reached for a while, or ever again."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import make_url

from ampcore.spec import State
from store.database import Database
from tests.worker.conftest import Running, Start

Wait = Callable[[Running], None]


class Line:
    """A TCP line to a server, which can be cut."""

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
        """Every connection breaks, and a new one does too."""
        self._is_cut.set()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut.clear()

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_cut.is_set():
                    near.close()
                    continue
                threading.Thread(target=self._carry, args=[near], daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, self._far() as far, suppress(OSError):
            self._open += [near, far]
            while True:
                for end in select.select([near, far], [], [])[0]:
                    if not (data := end.recv(65_536)):
                        return
                    (far if end is near else near).sendall(data)

    def _far(self) -> socket.socket:
        folder = self._url.query.get("host")
        port = self._url.port or 5432
        if folder is None:
            return socket.create_connection((self._url.host or "127.0.0.1", port))
        far = socket.socket(socket.AF_UNIX)
        far.connect(f"{folder}/.s.PGSQL.{port}")
        return far


@pytest.fixture
def line(postgres_url: str) -> Iterator[Line]:
    line = Line(postgres_url)
    yield line
    line.close()


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    """PostgreSQL alone, and as those see it who are not cut off."""
    database = Database(postgres_url)
    yield database
    database.close()


@pytest.fixture
def far_database(line: Line) -> Iterator[Database]:
    """As the worker sees it."""
    database = Database(line.url)
    yield database
    line.mend()
    database.close()


def test_training_goes_on_and_every_step_arrives_once(
    start: Start,
    line: Line,
    far_database: Database,
    until_running: Wait,
    wait_until: Callable[..., Any],
) -> None:
    running = start("steady", lease_s=60.0, database=far_database)
    until_running(running)
    trainer = running.process()
    line.cut()
    wait_until(lambda: not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE)
    assert running.job().step < 300
    line.mend()
    job = running.ended()
    assert (job.state, job.step) == (State.SUCCEEDED, 300)
    assert running.steps() == list(range(300))
    assert running.shop.meter.reading()["steps_total"] == 300


def test_many_cuts_lose_nothing_and_write_nothing_twice(
    start: Start,
    line: Line,
    far_database: Database,
    until_running: Wait,
    wait_until: Callable[..., Any],
) -> None:
    running = start("steady", lease_s=60.0, database=far_database)
    until_running(running)
    while running.job().state == State.RUNNING:
        line.cut()
        line.mend()
        wait_until(partial(has_moved, running, running.job().step))
    assert running.ended().state == State.SUCCEEDED
    assert running.steps() == list(range(300))


def has_moved(running: Running, step: int) -> bool:
    job = running.job()
    return job.step > step or State(job.state).is_terminal


def test_a_full_spool_makes_the_trainer_wait_and_loses_nothing(
    start: Start,
    line: Line,
    far_database: Database,
    tmp_path: Path,
    wait_until: Callable[..., Any],
) -> None:
    (tmp_path / "datasets").mkdir()
    written = tmp_path / "datasets" / "written"
    running = start("flood", room_bytes=10**6, lease_s=60.0, database=far_database)
    wait_until(lambda: running.job().state == State.RUNNING)
    line.cut()
    (tmp_path / "datasets" / "go").touch()
    wait_until(lambda: written.exists() and stays(written))
    # A million bytes here, one frame that was being read, and what the pipe holds.
    assert 10 <= int(written.read_text()) < 20
    line.mend()
    assert running.ended().state == State.SUCCEEDED
    assert running.steps() == list(range(1000))


def stays(file: Path, for_s: float = 0.5) -> bool:
    """Whether nothing happens to a file in that time."""
    before, deadline = file.read_text(), time.monotonic() + for_s
    while time.monotonic() < deadline:
        if file.read_text() != before:
            return False
        time.sleep(0.02)
    return True


def test_a_worker_that_is_cut_off_for_too_long_ends_its_trainer(
    start: Start, line: Line, far_database: Database, until_running: Wait
) -> None:
    running = start("deaf", self_fence_s=1.5, grace_s=60.0, database=far_database)
    until_running(running)
    trainer = running.process()
    line.cut()
    job = running.ended()
    assert not trainer.is_running()
    assert job.state == State.RUNNING  # nobody could say otherwise; its lease runs out


def test_a_worker_that_is_cut_off_can_still_be_shut_down(
    start: Start,
    line: Line,
    far_database: Database,
    until_running: Wait,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.closing.PATIENCE_S", 0.2)
    running = start("obedient", grace_s=1.0, database=far_database)
    until_running(running)
    trainer = running.process()
    line.cut()
    running.shop.shutting_down.set()
    assert running.ended(timeout_s=15).state == State.RUNNING
    assert not trainer.is_running()
