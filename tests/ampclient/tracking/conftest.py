"""A client whose network can fail, in front of the real API."""

import threading
from contextlib import contextmanager

import httpx
import pytest

from ampclient import Client
from ampclient.tracking import sender
from store.jobs import jobs
from store.telemetry import steps
from tests.waiting import DEADLINE_S


class Network(httpx.HTTPTransport):
    """Sends requests; fails while `is_down`, and loses the next `lost_responses` responses."""

    def __init__(self):
        super().__init__()
        self.is_down = False
        self.lost_responses = self.lost_images = 0
        self.paths = []
        self._begun, self._free = threading.Event(), threading.Event()
        self._free.set()

    @contextmanager
    def held(self):
        """Inside, no request returns; yields a function that waits until one has been sent."""
        self._free.clear()
        self._begun.clear()
        try:
            yield lambda: self._begun.wait(DEADLINE_S)
        finally:
            self._free.set()

    def handle_request(self, request):
        self.paths.append(request.url.path)
        self._begun.set()
        assert self._free.wait(DEADLINE_S)
        if self.is_down:
            raise httpx.ConnectError("down")
        response = super().handle_request(request)
        if self.lost_responses and request.url.path.endswith("/steps"):
            self.lost_responses -= 1
            response.read()
            raise httpx.ReadTimeout("lost")
        if self.lost_images and "/images/" in request.url.path:
            self.lost_images -= 1
            response.read()
            raise httpx.ReadTimeout("lost")
        return response


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def client(api, network):
    with (
        httpx.Client(transport=network, timeout=DEADLINE_S) as http_client,
        Client(api.url, api.token, http_client=http_client) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _send_often(monkeypatch):
    for delay in ("SEND_INTERVAL_S", "FIRST_DELAY_S", "MAX_DELAY_S"):
        monkeypatch.setattr(sender, delay, 0.01)


@pytest.fixture
def track(client):
    """Starts runs; those that a test leaves open are finished."""
    runs = []

    def start(name="run", **options):
        run = client.runs.track(name, **{"flush_timeout_s": DEADLINE_S, **options})
        runs.append(run)
        return run

    yield start
    for run in runs:
        run.finish()


@pytest.fixture
def stored(api):
    """The stored steps of a run, from `start` up to the first missing one."""

    def read(run, start=0):
        with api.database.read() as session:
            return steps.read(session, run.id, start=start, end=None, limit=1_000_000).block

    return read


@pytest.fixture
def job_of(api):
    """The job of a run."""

    def read(run):
        with api.database.read() as session:
            return jobs.get(session, run.id)

    return read
