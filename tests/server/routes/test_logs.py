import json
import socket
import threading
from contextlib import ExitStack

import pytest
from sqlalchemy import delete

from ampspec.jobs import State
from server.http.access.authenticator import CACHE_TTL_S
from server.http.streaming import follow, streams
from store.access import tokens
from store.jobs import attempts
from store.tables import Job
from store.telemetry import ingest
from store.telemetry.ingest import LogChunk
from tests.databases import ON_SQLITE
from tests.tables import every_row
from tests.waiting import DEADLINE_S

TEXT = {"Accept": "text/plain"}
NDJSON = {"Accept": "application/x-ndjson"}


@pytest.fixture
def job(api, make_job):
    """A running job that has printed nothing yet."""
    return make_job(State.RUNNING)


@pytest.fixture(autouse=True)
def end_all_streams(api, wait_until):
    """End every stream after the test, before its database is closed."""
    yield
    open_streams = api.app.state.services.streams
    open_streams.shutting_down.set()
    wait_until(lambda: open_streams._open == 0)


@pytest.fixture
def append_log(api, job):
    """Append log chunks to the job."""
    written = 0

    def append_log(*texts, stream="stdout", attempt=1):
        nonlocal written
        chunks = [LogChunk(stream, text) for text in texts]
        with api.database.write() as session:
            assert ingest.append(session, job.id, attempt, chunks, entries_written=written)
        written += len(chunks)

    return append_log


@pytest.fixture
def end(api, job):
    """Mark the job succeeded."""

    def end():
        with api.database.write() as session:
            assert attempts.mark_succeeded(session, job.id, 1, {"steps": 100})

    return end


@pytest.fixture
def follow_log(api, job):
    """Follow the log; returns the streaming response."""
    with ExitStack() as stack:

        def begin(accept="text/plain", **query):
            query = {"follow": "true", **query}
            url = f"/api/v1/jobs/{job.id}/logs"
            answer = api.client.stream("GET", url, params=query, headers={"Accept": accept})
            return stack.enter_context(answer)

        yield begin


def get(api, job, headers=None, **query):
    return api.client.get(f"/api/v1/jobs/{job.id}/logs", params=query, headers=headers)


# ---- Pages


def test_a_log_is_read_backwards_from_any_seq_with_an_etag(api, job, append_log):
    append_log("a", "b", "c")
    path = f"/api/v1/jobs/{job.id}/logs?limit=2&before="
    newest = api.client.get(f"{path}{2**53}")
    page = newest.json()
    assert ([entry["text"] for entry in page["items"]], page["more"]) == (["b", "c"], True)
    page = api.client.get(f"{path}{page['items'][0]['seq']}").json()
    assert ([entry["text"] for entry in page["items"]], page["more"]) == (["a"], False)
    known = {"If-None-Match": newest.headers["ETag"]}
    assert api.client.get(f"{path}{2**53}", headers=known).status_code == 304


@ON_SQLITE
def test_log_entries_are_returned_in_order(api, job, append_log):
    append_log("one\n", "two\n")
    append_log("oh\n", stream="stderr")
    page = get(api, job).json()
    assert [(e["stream"], e["text"]) for e in page["items"]] == [
        ("stdout", "one\n"),
        ("stdout", "two\n"),
        ("stderr", "oh\n"),
    ]
    assert page["items"][0]["attempt"] == 1
    assert page["items"][0]["created_at"].endswith("Z")
    assert (page["next"], page["more"]) == (page["items"][-1]["seq"], False)


def test_polling_with_next_returns_every_chunk_once(api, job, append_log):
    append_log(*"abcde")
    seen, after, more = "", 0, True
    while more:
        page = get(api, job, after=after, limit=2).json()
        seen += "".join(entry["text"] for entry in page["items"])
        after, more = page["next"], page["more"]
    assert seen == "abcde"
    assert get(api, job, after=after).json() == {"items": [], "next": after, "more": False}


@ON_SQLITE
def test_the_plain_text_log_is_complete(api, job, append_log, monkeypatch):
    monkeypatch.setattr(follow, "PAGE", 2)
    append_log(*"abcde", "ü\n")
    answer = get(api, job, TEXT)
    assert answer.text == "abcdeü\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert get(api, job, NDJSON).text.count("\n") == 6


def test_a_log_can_be_filtered_by_attempt(api, job, append_log):
    append_log("first")
    assert get(api, job, TEXT, attempt=1).text == "first"
    assert get(api, job, TEXT, attempt=2).text == ""
    assert get(api, job, attempt=2).json()["items"] == []


@ON_SQLITE
@every_row("query", ["after=-1", "limit=0", "limit=1001", "attempt=0", "follow=perhaps", "since=1"])
def test_an_invalid_log_query_is_refused(api, job, query):
    answer = api.client.get(f"/api/v1/jobs/{job.id}/logs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


# ---- Following


@ON_SQLITE
def test_following_a_log_returns_old_and_new_text_until_the_job_ends(append_log, end, follow_log):
    append_log("before\n")
    pieces = (answer := follow_log()).iter_text()
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"
    assert next(pieces) == "before\n"
    append_log("during\n")
    assert next(pieces) == "during\n"
    append_log("last\n")
    end()
    assert "".join(pieces) == "last\n"


@ON_SQLITE
def test_a_follower_resumes_after_the_last_entry(append_log, end, follow_log):
    append_log("a", "b", "c")
    end()
    entries = [json.loads(line) for line in follow_log("application/x-ndjson").iter_lines()]
    assert [entry["text"] for entry in entries] == ["a", "b", "c"]
    again = follow_log("application/x-ndjson", after=entries[0]["seq"])
    assert [json.loads(line)["text"] for line in again.iter_lines()] == ["b", "c"]


@ON_SQLITE
def test_a_silent_stream_sends_heartbeats(append_log, end, follow_log, monkeypatch):
    monkeypatch.setattr(follow, "HEARTBEAT_S", 0.1)
    lines = follow_log("application/x-ndjson").iter_lines()
    assert next(lines) == ""
    append_log("x")
    end()
    assert [json.loads(line)["text"] for line in lines if line] == ["x"]


@ON_SQLITE
def test_a_stream_ends_when_its_job_is_deleted(api, job, append_log, follow_log):
    append_log("x")
    pieces = follow_log().iter_text()
    assert next(pieces) == "x"
    with api.database.write() as session:
        session.execute(delete(Job).where(Job.id == job.id))
    assert list(pieces) == []


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(api):
    """The clock of the authenticator, which decides how long a token is cached."""
    api.app.state.services.authenticator._clock = clock = Clock()
    return clock


@pytest.fixture
def revoke(api):
    """Revoke the viewer's token in the database, as another server would."""

    def revoke():
        with api.database.write() as session:
            [token] = [row for row in tokens.listing(session) if row.name == "viewer of default"]
            tokens.revoke(session, token)

    return revoke


@ON_SQLITE
def test_the_cache_time_and_the_stream_check_interval_add_up_to_less_than_two_seconds():
    assert CACHE_TTL_S + streams.AUTH_CHECK_S < 2.0


@ON_SQLITE
@pytest.mark.parametrize("path", ["logs?follow=true", "stream"])
def test_a_stream_ends_at_the_next_check_when_its_token_is_revoked(
    *, api, job, client_with_role, clock, revoke, monkeypatch, path
):
    """Including a stream that polls its job rarely."""
    monkeypatch.setattr(follow, "MIN_POLL_S", 1000.0)
    monkeypatch.setattr(follow, "MAX_POLL_S", 1000.0)
    with client_with_role("viewer").stream("GET", f"/api/v1/jobs/{job.id}/{path}") as answer:
        assert answer.status_code == 200
        revoke()
        clock.now += CACHE_TTL_S
        assert "event: end" not in "".join(answer.iter_text())


@ON_SQLITE
def test_streams_of_one_token_share_one_query_about_it(
    *, api, job, client_with_role, clock, monkeypatch, wait_until
):
    authenticator = api.app.state.services.authenticator
    asked, find = [], authenticator._find
    monkeypatch.setattr(
        authenticator, "_find", lambda credential: asked.append(1) or find(credential)
    )
    checks, cached_principal = [], authenticator.cached_principal
    monkeypatch.setattr(
        authenticator, "cached_principal", lambda one: checks.append(1) or cached_principal(one)
    )
    client = client_with_role("viewer")
    with ExitStack() as stack:
        for _ in range(5):
            url = f"/api/v1/jobs/{job.id}/logs?follow=true"
            assert stack.enter_context(client.stream("GET", url)).status_code == 200
        seen = len(checks)
        wait_until(lambda: len(checks) > seen + 20)
    assert len(asked) == 1


def test_a_stream_continues_after_a_database_outage(append_log, end, follow_log, monkeypatch):
    from sqlalchemy.exc import OperationalError

    failures = []
    real = follow.logs.read

    def fail_twice(*arguments, **options):
        if len(failures) < 2:
            failures.append(1)
            raise OperationalError("", {}, Exception("gone"))
        return real(*arguments, **options)

    monkeypatch.setattr(follow.logs, "read", fail_twice)
    append_log("x")
    end()
    assert "".join(follow_log().iter_text()) == "x"
    assert len(failures) == 2


@ON_SQLITE
def test_every_stream_ends_at_once_when_the_server_stops(api, job, append_log, follow_log):
    append_log("x")
    answers = [follow_log().iter_text() for _ in range(20)]
    assert [next(pieces) for pieces in answers] == ["x"] * 20
    api.app.state.services.streams.shutting_down.set()
    assert [list(pieces) for pieces in answers] == [[]] * 20


@ON_SQLITE
def test_streams_block_no_other_request(api, job, append_log, follow_log):
    append_log("x")
    for _ in range(30):  # more than threads and database connections
        follow_log()
    assert get(api, job).status_code == 200


def connect(api, job):
    """Connect a follower that reads nothing."""
    address = ("127.0.0.1", int(api.url.rpartition(":")[2]))
    client = socket.create_connection(address, timeout=DEADLINE_S)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = (
        f"GET /api/v1/jobs/{job.id}/logs?follow=true HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {api.token}\r\n\r\n"
    )
    client.sendall(head.encode())
    return client


@pytest.fixture
def reads(monkeypatch):
    """The threads in which followers read the log, one item for each read."""
    counted = []
    real = follow.Feed._poll

    def read(feed):
        counted.append(threading.current_thread())
        return real(feed)

    monkeypatch.setattr(follow.Feed, "_poll", read)
    return counted


@ON_SQLITE
def test_a_stream_does_not_read_ahead_for_a_slow_client(
    *, api, job, append_log, reads, monkeypatch, wait_until
):
    monkeypatch.setattr(follow, "PAGE", 1)
    monkeypatch.setattr(streams, "SHUTDOWN_GRACE_S", 0.1)
    append_log(*["x" * 200_000 for _ in range(60)])  # 12 MB, more than the buffers of the kernel
    with connect(api, job):
        wait_until(lambda: reads)
        before = -1
        while before != len(reads):  # until no read happens during 20 requests
            before = len(reads)
            for _ in range(20):
                get(api, job, after=2**53)
        assert len(reads) < 60
        # It does not delay the shutdown of the server either.
        api.app.state.services.streams.shutting_down.set()
        wait_until(lambda: api.app.state.services.streams._open == 0)


@ON_SQLITE
def test_a_disconnected_client_ends_its_stream(api, job, append_log, wait_until):
    open_streams = api.app.state.services.streams
    client = connect(api, job)
    wait_until(lambda: open_streams._open == 1)
    client.close()
    wait_until(lambda: open_streams._open == 0)


@ON_SQLITE
def test_head_of_a_stream_is_answered_at_once(api, job, wait_until):
    answer = api.client.head(f"/api/v1/jobs/{job.id}/logs?follow=true")
    assert (answer.status_code, answer.content) == (200, b"")
    wait_until(lambda: api.app.state.services.streams._open == 0)


@ON_SQLITE
def test_followers_of_a_silent_job_share_few_threads(job, follow_log, reads, wait_until):
    for _ in range(10):
        follow_log()
    wait_until(lambda: len(reads) > 30)
    assert len(set(reads)) <= streams.MAX_READERS + 2  # two at a time, in threads of a shared pool
