from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from ampspec.jobs import State
from server.errors import TooManyOpen, Unavailable
from server.http.streaming import stream_limits
from server.http.streaming.stream_limits import (
    DOWNLOAD_LIMIT,
    FOLLOW_LIMIT,
    WAIT_LIMIT,
    OpenStreams,
    StreamLimit,
    StreamOwner,
)
from store.files import artifacts
from store.files.artifacts import StoredArtifact
from tests.waiting import DEADLINE_S

FOLLOW = {
    "stream": ("stream", {}),
    "logs": ("logs?follow=true", {"Accept": "text/plain"}),
}
LIMITS = {"streams": FOLLOW_LIMIT, "downloads": DOWNLOAD_LIMIT, "requests": WAIT_LIMIT}
"""By the first word of their rows in the reference."""


def error_of_one_more(open_streams, token_id, address):
    """The error of one more stream, which must not open."""
    with (
        pytest.raises((TooManyOpen, Unavailable)) as refused,
        open_streams.one(StreamOwner(token_id, address)),
    ):
        pytest.fail("the stream opened")
    return refused.value


def test_streams_are_limited_per_token_per_address_and_in_total():
    open_streams = OpenStreams(StreamLimit("streams", total=4, per_token=2, per_address=3))
    with ExitStack() as stack:
        for token_id in ("ada", "ada"):
            stack.enter_context(open_streams.one(StreamOwner(token_id, "192.0.2.1")))
        assert "This token already has 2 streams open" in str(
            error_of_one_more(open_streams, "ada", "192.0.2.2")
        )
        stack.enter_context(open_streams.one(StreamOwner("bob", "192.0.2.1")))
        assert "This address already has 3 streams open" in str(
            error_of_one_more(open_streams, "eve", "192.0.2.1")
        )
        with open_streams.one(StreamOwner("eve", "192.0.2.2")):
            error = error_of_one_more(open_streams, "bob", "192.0.2.3")
        assert isinstance(error, Unavailable)
        with open_streams.one(StreamOwner("bob", "192.0.2.3")):
            assert open_streams.count == 4
    assert open_streams.count == 0
    assert not open_streams._by_token
    assert not open_streams._by_address


def test_a_failed_response_frees_its_stream():
    open_streams = OpenStreams(StreamLimit("streams", total=1, per_token=1, per_address=1))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), open_streams.one(StreamOwner("ada", "192.0.2.1")):
            raise ZeroDivisionError
    assert open_streams.count == 0


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_one_token_or_address_can_use_at_most_half_of_the_total(limit):
    assert limit.per_token <= limit.per_address <= limit.total // 2


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.fixture
def job(api, make_job):
    return make_job(State.RUNNING)


@pytest.fixture
def low_limits(api, monkeypatch, wait_until):
    """Allow a token one stream and one file, and an address two of each."""
    streams = api.app.state.services.streams
    one = {"total": 4, "per_token": 1, "per_address": 2}
    streams.followers = OpenStreams(StreamLimit("streams", **one))
    streams.files = OpenStreams(StreamLimit("downloads and exports", **one))
    yield
    streams.shutting_down.set()
    wait_until(lambda: streams._open == 0)


def refused_response(client, url, headers):
    """The response to a refused stream; an accepted one would never end."""
    with client.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 429
        answer.read()
    assert answer.json()["code"] == "too_many_open"
    return answer


@pytest.mark.parametrize("kind", FOLLOW)
def test_too_many_streams_of_one_client_are_refused_and_others_are_not(
    *, api, job, low_limits, client_with_role, kind
):
    path, headers = FOLLOW[kind]
    url = f"/api/v1/jobs/{job.id}/{path}"
    greedy, other = client_with_role("viewer"), client_with_role("viewer")
    with greedy.stream("GET", url, headers=headers) as first:
        assert first.status_code == 200
        refused = refused_response(greedy, url, headers)
        assert "This token already has 1 streams open" in refused.json()["detail"]
        assert int(refused.headers["Retry-After"]) > 0
        with other.stream("GET", url, headers=headers) as second:
            assert second.status_code == 200
            third = refused_response(client_with_role("viewer"), url, headers)
            assert "This address already has 2 streams open" in third.json()["detail"]
            forwarded = headers | {"X-Forwarded-For": "198.51.100.7"}
            with client_with_role("viewer").stream("GET", url, headers=forwarded) as fourth:
                assert fourth.status_code == 200


def test_streams_leave_room_for_downloads_and_exports(
    *, api, job, low_limits, client_with_role, make_block
):
    from store.telemetry import ingest

    with api.database.write() as session:
        ingest.append(session, job.id, 1, [make_block(1, 10)], entries_written=0)
        file = api.data_dir / "report"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x" * 1000)
        size, sha256 = api.app.state.services.storage.put(job.id, "attempt-1/report", file)
        artifacts.add(
            session,
            job.id,
            1,
            StoredArtifact("attempt-1/report", artifacts.REPORT, 1, size, sha256),
        )
    client = client_with_role("viewer")
    with client.stream("GET", f"/api/v1/jobs/{job.id}/stream") as following:
        assert following.status_code == 200
        for path in ("artifacts/attempt-1/report", "steps?format=csv"):
            assert client.get(f"/api/v1/jobs/{job.id}/{path}").status_code == 200


@pytest.mark.parametrize("path", ["artifacts/attempt-1/report", "steps?format=csv"])
def test_too_many_downloads_of_one_client_are_refused_and_others_are_not(
    *, api, job, low_limits, client_with_role, path
):
    streams = api.app.state.services.streams
    greedy = client_with_role("viewer")
    token_id = greedy.get("/api/v1/session").json()["token_id"]
    with api.database.write() as session:
        artifacts.add(
            session, job.id, 1, StoredArtifact("attempt-1/report", artifacts.REPORT, 1, 9, "00")
        )
    with streams.files.one(StreamOwner(token_id, "192.0.2.1")):
        refused = greedy.get(f"/api/v1/jobs/{job.id}/{path}")
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_open")
        # The file is missing from the storage; a refused request never gets that far.
        other = client_with_role("viewer").get(f"/api/v1/jobs/{job.id}/{path}")
        assert other.status_code in (200, 404)


def test_the_stream_limit_is_checked_again_when_the_response_starts(
    *, api, job, low_limits, monkeypatch
):
    """Two concurrent requests can both pass the first check."""
    monkeypatch.setattr(
        stream_limits.OpenStreams, "check", _skip_first_check(stream_limits.OpenStreams.check)
    )
    url = f"{api.url}/api/v1/jobs/{job.id}/stream"
    headers = {"Authorization": f"Bearer {api.token}"}
    with httpx.stream("GET", url, headers=headers, timeout=DEADLINE_S) as first:
        assert first.status_code == 200
        with httpx.stream("GET", url, headers=headers, timeout=DEADLINE_S) as second:
            assert second.status_code == 429


def _skip_first_check(check):
    """A check that passes at the route, and is made only when the response starts."""
    calls = []

    def checked(open_streams, owner):
        calls.append(owner)
        if len(calls) % 2 == 0:
            check(open_streams, owner)

    return checked


def test_the_reference_documents_the_stream_limits():
    rows = (Path(__file__).parents[4] / "docs/reference/http.md").read_text("utf-8").splitlines()
    for first_word, limit in LIMITS.items():
        [row] = [row for row in rows if row.startswith(f"| {first_word}")]
        documented = [int(cell) for cell in row.split("|")[2:-1]]
        assert documented == [limit.per_token, limit.per_address, limit.total]
