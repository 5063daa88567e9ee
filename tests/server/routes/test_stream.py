"""The event stream of a job as Server-Sent Events: in order, without a gap or a repeat."""

import json
import random
import threading
from contextlib import ExitStack

import anyio
import pytest
from sqlalchemy import delete

from ampspec.jobs import State
from ampspec.telemetry import Event, EventType
from server.background.compactor import Compactor
from server.http.streaming import follow
from server.http.streaming.follow import StreamPage
from server.telemetry import server_sent_events
from store.jobs import attempts, jobs
from store.tables import Job
from store.telemetry import event_stream, ingest
from store.telemetry.ingest import LogChunk
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def job(api, make_job):
    return make_job(State.RUNNING)


@pytest.fixture(autouse=True)
def end_all_streams(api, wait_until):
    """End every stream after the test, before its database is closed."""
    yield
    open_streams = api.app.state.services.streams
    open_streams.shutting_down.set()
    wait_until(lambda: open_streams._open == 0)


@pytest.fixture
def append_entries(api, job):
    """Write entries of an attempt."""
    written = {}

    def append(*entries, attempt=1):
        before = written.get(attempt, 0)
        with api.database.write() as session:
            assert ingest.append(session, job.id, attempt, entries, entries_written=before)
        written[attempt] = before + len(entries)

    return append


@pytest.fixture
def end(api, job):
    def end(attempt=1):
        with api.database.write() as session:
            assert attempts.mark_succeeded(session, job.id, attempt, {"steps": 100})

    return end


@pytest.fixture
def follow_stream(api, job):
    """Follow the job; returns an iterator over its events."""
    with ExitStack() as stack:

        def begin(headers=None, **query):
            url = f"/api/v1/jobs/{job.id}/stream"
            answer = api.client.stream("GET", url, params=query, headers=headers)
            response = stack.enter_context(answer)
            assert response.status_code == 200
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            return events_of(response.iter_lines())

        yield begin


def events_of(lines):
    """(id, name, data) of each event, parsed as a browser does."""
    fields = {}
    for line in lines:
        if line.startswith((":", "retry:")):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            seq = int(fields["id"]) if "id" in fields else None
            yield seq, fields["event"], json.loads(fields["data"])
            fields = {}


def flat(events):
    """The entries with one item for each step, whatever the sizes of the blocks."""
    written = []
    for seq, name, data in events:
        if name == "steps":
            columns = data["data"]
            assert columns["step"][0] == data["first_step"]
            rows = zip(columns["step"], columns["loss"], strict=True)
            written += [("step", data["attempt"], step, loss) for step, loss in rows]
        elif name != "lag":
            written.append((name, seq))
    return written


def warning(step):
    return Event(EventType.WARNING, step, {"message": "beware"})


@pytest.fixture(params=["as it came", "merged"])
def job_of_two_attempts(*, request, api, job, append_entries, end, make_block, monkeypatch):
    """A job with blocks, events and log text of two attempts that share some steps."""
    monkeypatch.setattr(event_stream, "ROWS_PER_READ", 5)
    monkeypatch.setattr(event_stream, "BLOCKS_PER_READ", 2)
    monkeypatch.setattr(event_stream, "STEPS_PER_EVENT", 12)
    for first in range(0, 60, 4):
        append_entries(make_block(first, 4), warning(first), LogChunk("stdout", f"{first}\n"))
    with api.database.write() as session:
        attempts.requeue(session, job.id, 1)
        attempts.claim(session, job.id, "another")
        attempts.mark_running(session, job.id, 2, total_steps=100, first_step=40)
    for first in range(40, 100, 3):
        append_entries(make_block(first, 3, loss=-1.0), attempt=2)
    end(attempt=2)
    if request.param == "merged":
        while Compactor(api.database).compact():
            pass
    return job


def test_the_stream_is_complete_and_ordered(job_of_two_attempts, follow_stream):
    events = list(follow_stream())
    assert events[-1] == (None, "end", {"state": "succeeded"})
    seqs = [seq for seq, _, _ in events[:-1]]
    assert seqs == sorted(set(seqs))
    written = flat(events)
    steps = [
        (attempt, step) for kind, *rest in written if kind == "step" for attempt, step, _ in [rest]
    ]
    assert steps == [(1, s) for s in range(60)] + [(2, s) for s in range(40, 100)]
    # Queued, starting, running; requeued, starting, running; succeeded.
    assert sum(kind == "state" for kind, *_ in written) == 7
    assert (
        sum(kind == "event" for kind, *_ in written)
        == sum(kind == "log" for kind, *_ in written)
        == 15
    )
    # Each event keeps its position between the block before it and the one after it.
    positions = [index for index, entry in enumerate(written) if entry[0] == "event"]
    assert [written[place - 1][2] for place in positions] == list(range(3, 60, 4))


def test_a_stream_resumes_after_the_last_event_id(job_of_two_attempts, follow_stream):
    whole = list(follow_stream())
    random_ = random.Random(0)
    for stop in random_.sample(range(len(whole) - 1), 12):
        received, last = whole[: stop + 1], whole[stop][0]
        rest = list(follow_stream({"Last-Event-ID": str(last)}))
        assert flat(received) + flat(rest) == flat(whole)
        assert flat(follow_stream(after=last)) == flat(rest)


def test_a_stream_interrupted_during_compaction_is_complete(
    *, api, job, append_entries, end, make_block, follow_stream, monkeypatch
):
    monkeypatch.setattr(event_stream, "STEPS_PER_EVENT", 10)
    random_ = random.Random(1)
    received, last, step = [], 0, 0

    def read_some(limit):
        nonlocal last
        for seq, name, data in follow_stream(after=last):
            received.append((seq, name, data))
            last = seq or last
            limit -= 1
            if not limit or last >= seq_of(api, job):
                return

    for _ in range(12):
        for _ in range(random_.randint(1, 9)):
            count = random_.randint(1, 9)
            append_entries(make_block(step, count), warning(step))
            step += count
        if random_.random() < 0.5:
            monkeypatch.setattr("store.telemetry.compaction_queue.MIN_BLOCKS", 1)
            while Compactor(api.database).compact():
                pass
        read_some(random_.randint(1, 20))
    end()
    received += follow_stream(after=last)
    assert flat(received) == flat(follow_stream())
    steps = [entry[2] for entry in flat(received) if entry[0] == "step"]
    assert steps == list(range(step))


def seq_of(api, job):
    with api.database.read() as session:
        return jobs.seq_and_state(session, job.id)[0]


def test_new_entries_are_streamed_as_they_are_written(
    job, append_entries, end, make_block, follow_stream
):
    events = follow_stream(kinds="steps")
    append_entries(make_block(0, 3))
    assert next(events)[2]["data"]["step"] == [0, 1, 2]
    append_entries(warning(2), make_block(3, 2))
    assert next(events)[2]["data"]["step"] == [3, 4]
    end()
    assert next(events)[1] == "end"


def test_a_stream_can_be_filtered_by_kind_and_column(
    job, append_entries, end, make_block, follow_stream
):
    append_entries(make_block(0, 3), warning(2), LogChunk("stderr", "oh\n"))
    end()
    kinds = ["steps", "logs"]
    written = list(follow_stream(kinds=kinds, columns="loss"))
    assert [name for _, name, _ in written] == ["steps", "log", "end"]
    assert set(written[0][2]["data"]) == {"step", "loss", "skipped"}
    assert written[1][2]["text"] == "oh\n"


def test_non_finite_numbers_are_strings(append_entries, end, make_block, follow_stream):
    append_entries(make_block(0, 2, loss=float("nan")))
    end()
    [steps, _] = follow_stream(kinds="steps")
    assert steps[2]["data"]["loss"] == ["NaN", "NaN"]


def test_deleting_a_job_ends_its_stream(api, job, append_entries, make_block, follow_stream):
    append_entries(make_block(0, 3))
    events = follow_stream(kinds="steps")
    assert next(events)[1] == "steps"
    with api.database.write() as session:
        session.execute(delete(Job).where(Job.id == job.id))
    assert list(events) == [(None, "end", {"state": None})]


def test_a_last_event_id_in_the_future_gets_only_the_end_event(end, follow_stream):
    end()
    assert [name for _, name, _ in follow_stream(after=10**6)] == ["end"]


def test_a_reader_that_has_not_caught_up_gets_no_lag_event():
    class LongStream:
        is_over = False

        async def pages(self):
            yield StreamPage((), 0, -1)
            yield StreamPage([b"first"], 64, 5000)
            yield StreamPage((), 64, -1)
            yield StreamPage([b"second"], 128, 5000)

    async def written():
        return [event async for event in server_sent_events.server_sent_events(LongStream())]

    assert anyio.run(written)[1:] == [
        b": keep-alive\n\n",
        b"first",
        b": keep-alive\n\n",
        b"second",
    ]


def test_a_slow_reader_gets_a_lag_event(
    append_entries, end, make_block, follow_stream, monkeypatch
):
    monkeypatch.setattr(server_sent_events, "LAG_ENTRIES", 5)
    monkeypatch.setattr(event_stream, "ROWS_PER_READ", 2)
    events = follow_stream(kinds="events")
    while next(events)[2]["data"].get("state") != "running":
        pass
    append_entries(*map(warning, range(20)))
    end()
    rest = list(events)
    assert (None, "lag") in [(seq, name) for seq, name, _ in rest]
    [lag] = [data for _, name, data in rest if name == "lag"]
    assert lag["behind"] > 5
    assert sum(data.get("type") == "warning" for _, _, data in rest) == 20


def test_a_client_that_reads_nothing_is_disconnected(
    *, api, job, append_entries, monkeypatch, wait_until
):
    monkeypatch.setattr("server.event_log.stream_routes.SEND_TIMEOUT_S", 0.3)
    open_streams = api.app.state.services.streams
    with api.client.stream("GET", f"/api/v1/jobs/{job.id}/stream"):
        wait_until(lambda: open_streams._open == 1)
        append_entries(*(LogChunk("stdout", "x" * 100_000) for _ in range(200)))
        wait_until(lambda: open_streams._open == 0)


def test_a_notification_wakes_a_stream_at_once(
    *, api, job, append_entries, make_block, follow_stream, monkeypatch, wait_until
):
    monkeypatch.setattr(follow, "MIN_POLL_S", 60.0)
    monkeypatch.setattr(follow, "MAX_POLL_S", 60.0)
    events = follow_stream(kinds="steps")
    subscriptions = api.app.state.services.streams.subscriptions
    wait_until(lambda: subscriptions._waiting.get(job.id))
    received = threading.Event()
    listener = threading.Thread(target=lambda: (next(events), received.set()))
    listener.start()
    append_entries(make_block(0, 3))
    # Repeatedly: a notification before the stream subscribes is lost.
    wait_until(lambda: subscriptions.notify(job.id) or received.is_set())
    listener.join()


def test_a_stream_that_the_server_ends_has_no_end_event(api, job, follow_stream):
    events = follow_stream()
    next(events)
    api.app.state.services.streams.shutting_down.set()
    assert "end" not in [name for _, name, _ in events]


@every_row(
    ("query", "headers"),
    [("after=-1", {}), ("kinds=stepps", {}), ("", {"Last-Event-ID": "x"}), ("from=3", {})],
)
def test_an_invalid_stream_query_is_refused(api, job, query, headers):
    answer = api.client.get(f"/api/v1/jobs/{job.id}/stream?{query}", headers=headers)
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_request"
