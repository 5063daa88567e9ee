"""The event stream of a job over connections that break."""

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampclient import (
    ConnectionFailed,
    JobEvent,
    LogEntry,
    NotFound,
    StepBlock,
    StepsEvent,
    UnexpectedResponse,
)
from ampclient._telemetry.event_stream import MEDIA_TYPE
from tests.tables import every_row

NOW = "2030-01-02T03:04:05Z"


def steps(seq, *numbers, attempt=1):
    columns = {"step": [*numbers], "loss": [float(n) for n in numbers]}
    columns["skipped"] = [False] * len(numbers)
    return ("steps", {"seq": seq, "attempt": attempt, "first_step": numbers[0], "data": columns})


def event(seq, name="event", type_="overflow"):
    entry = {"seq": seq, "type": type_, "step": 1, "attempt": 1, "created_at": NOW, "data": {}}
    return (name, entry)


def log(seq, text):
    return ("log", {"seq": seq, "attempt": 1, "stream": "stdout", "text": text, "created_at": NOW})


ENTRIES = [
    event(1, "state", "state"),
    log(2, "line\u2028one\n"),
    steps(3, 0, 1, 2),
    event(4),
    steps(7, 3, 4),
    log(8, "two\n"),
    event(9, "state", "state"),
    steps(11, 2, 3, 4, 5, attempt=2),
]


@pytest.fixture
def job(client, server):
    server.add_job("a", state="running")
    server.streams["a"] = ENTRIES
    return client.jobs.get("a")


@pytest.fixture
def ended(job, server):
    server.jobs["a"]["state"] = "succeeded"
    return job


def seqs(entries):
    return [entry.seq for entry in entries]


def streams(server):
    return [request for request in server.requests if request.url.path.endswith("/stream")]


def test_steps_arrive_in_the_blocks_of_the_server_with_their_attempt(ended):
    blocks = list(ended.stream())
    assert all(isinstance(block, StepBlock) for block in blocks)
    assert [(b.seq, b.attempt, b["step"].tolist()) for b in blocks] == [
        (3, 1, [0, 1, 2]),
        (7, 1, [3, 4]),
        (11, 2, [2, 3, 4, 5]),
    ]
    assert (blocks[0]["loss"].dtype, blocks[0].names) == (np.float32, ("loss", "skipped"))
    assert repr(blocks[2]) == "<StepBlock steps 2–5: loss, skipped; attempt 2, seq 11>"


def test_steps_events_are_concatenated_into_a_step_block(ended):
    first, second, _ = ended.stream()
    for joined in (StepBlock.concat([first, second]), StepsEvent.concat([first, second])):
        assert type(joined) is StepBlock
        assert joined["step"].tolist() == [0, 1, 2, 3, 4]


def test_entries_arrive_in_order_with_their_types(ended):
    entries = list(ended.follow())
    assert seqs(entries) == [entry["seq"] for _, entry in ENTRIES]
    kinds = [type(entry) for entry in entries]
    assert kinds == [
        *(JobEvent, LogEntry, StepsEvent, JobEvent),
        *(StepsEvent, LogEntry, JobEvent, StepsEvent),
    ]
    assert entries[0].type == "state"
    assert entries[1].text == "line\u2028one\n"


def test_kinds_columns_and_start_are_sent_to_the_server(ended, server):
    assert seqs(ended.follow(kinds=["events", "logs"], after=2)) == [4, 8, 9]
    list(ended.stream(columns=["loss"]))
    first, second = streams(server)
    assert first.url.params.get_list("kinds") == ["events", "logs"]
    assert (first.headers["last-event-id"], first.headers["accept"]) == ("2", MEDIA_TYPE)
    assert (second.url.params["kinds"], second.url.params["columns"]) == ("steps", "loss")


@every_row("kinds", [[], ["state"]])
def test_missing_or_unknown_kinds_are_a_value_error(ended, kinds):
    with pytest.raises(ValueError, match="kinds among steps, events, logs"):
        ended.follow(kinds=kinds)


def test_unknown_events_of_a_newer_server_are_ignored(ended, respond, server):
    text = 'id: 1\nevent: wonder\ndata: {}\n\nevent: lag\ndata: {"behind":2000}\n\n'
    server.next_responses = [respond(200, text=text, headers={"content-type": MEDIA_TYPE})]
    assert len(list(ended.stream())) == 3


def test_a_stream_that_ends_before_its_job_is_reopened(job, server, clock):
    stream = job.stream()
    assert next(stream).seq == 3
    assert next(stream).seq == 7
    assert next(stream).seq == 11
    server.jobs["a"]["state"] = "succeeded"
    assert list(stream) == []
    assert [request.headers["last-event-id"] for request in streams(server)] == ["0", "11"]
    assert clock.slept == [0.5]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lines_may_end_with_lf_or_crlf(ended, server, respond, line_end):
    text = 'event: end\ndata: {\ndata: "state": "failed"}\n\n'.replace("\n", line_end)
    server.next_responses = [respond(200, text=text, headers={"content-type": MEDIA_TYPE})]
    assert list(ended.stream()) == []
    assert len(streams(server)) == 1


@every_row(
    ("text", "media_type"),
    [
        ("<html>", "text/html"),
        ("event: steps\ndata: {}\n\n", MEDIA_TYPE),
        ("event: log\ndata: <html>\n\n", MEDIA_TYPE),
        ('event: steps\ndata: {"seq":1,"attempt":1,"first_step":0,"data":{"step":[1]}}\n\n',
         MEDIA_TYPE),
    ],
)  # fmt: skip
def test_a_response_that_is_no_event_stream_is_unexpected(ended, server, respond, text, media_type):
    server.next_responses = [respond(200, text=text, headers={"content-type": media_type})]
    with pytest.raises(UnexpectedResponse, match=r"Cannot read an event|Expected"):
        list(ended.follow())


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    sizes=st.lists(st.integers(0, 1500), max_size=8),
    hidden=st.booleans(),
    refused=st.integers(0, 5),
)
def test_each_entry_arrives_once_after_any_interruptions(
    client, server, cut_response, respond, *, sizes, hidden, refused
):
    server.add_job("h", state="succeeded")
    server.streams["h"] = ENTRIES
    job = client.jobs.get("h")
    server.next_responses = [cut_response(size, hidden=hidden) for size in sizes]
    server.next_responses += [respond(httpx.ConnectError("refused"))] * refused
    assert seqs(job.follow()) == [entry["seq"] for _, entry in ENTRIES]
    server.next_responses = []


def test_a_slow_reader_resumes_after_interruptions(ended, server, cut_response, clock):
    server.next_responses = [cut_response(-30), cut_response(-30)]
    received = []
    for entry in ended.follow():
        received.append(entry.seq)
        clock.sleep(1000)
    assert received == [entry["seq"] for _, entry in ENTRIES]


def test_a_429_response_is_retried_after_its_retry_after(ended, server, respond, clock):
    server.next_responses = [respond(429, headers={"retry-after": "7"})]
    assert len(list(ended.stream())) == 3
    assert clock.slept == [7]


def test_a_server_that_stays_unreachable_is_an_error(job, server, respond):
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 1000
    with pytest.raises(ConnectionFailed):
        list(job.stream())


def test_a_job_that_is_deleted_during_its_stream_is_not_found(job, server, respond):
    text = 'event: end\ndata: {"state":null}\n\n'
    server.next_responses = [respond(200, text=text, headers={"content-type": MEDIA_TYPE})]
    with pytest.raises(NotFound, match="deleted"):
        list(job.stream())
    del server.jobs["a"]
    with pytest.raises(NotFound):
        list(job.stream())
