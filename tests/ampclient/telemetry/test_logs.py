import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ampclient import ConnectionFailed, NotFound, UnexpectedResponse


@pytest.fixture
def job(client, server):
    server.add_job("a", state="running")
    return client.jobs.get("a")


def texts(entries):
    return [entry.text for entry in entries]


def streams(server):
    return [request for request in server.requests if "follow" in request.url.params]


def test_logs_are_read_over_all_pages(job, server):
    server.add_logs("a", "one\n", "two\n", "three\n")
    server.logs_per_page = 2
    entries = list(job.logs())
    assert texts(entries) == ["one\n", "two\n", "three\n"]
    assert (entries[0].stream, entries[0].attempt) == ("stdout", 1)
    assert texts(job.logs(after=entries[1].seq)) == ["three\n"]


def test_logs_can_be_read_for_one_attempt(job, server):
    server.add_logs("a", "one\n")
    server.add_logs("a", "two\n", attempt=2)
    assert texts(job.logs(attempt=2)) == ["two\n"]


def test_follow_ends_with_the_job_and_reads_its_last_entries(job, server):
    server.add_logs("a", "one\n")
    server.changes["a"] = [lambda: server.add_logs("a", "two\n")]
    server.change("a", state="succeeded")
    assert texts(job.logs(follow=True)) == ["one\n", "two\n"]
    assert len(streams(server)) == 2


def test_follow_reads_entries_written_between_the_stream_and_the_end(job, server):
    def end():
        server.add_logs("a", "last\n")
        server.jobs["a"]["state"] = "failed"

    server.changes["a"] = [end]
    assert texts(job.logs(follow=True)) == ["last\n"]


def test_follow_of_an_ended_job_reads_each_entry_once(client, server):
    server.add_job("z", state="failed")
    server.add_logs("z", "one\n")
    assert texts(client.jobs.get("z").logs(follow=True)) == ["one\n"]


def test_follow_requests_ndjson(job, server):
    server.change("a", state="failed")
    list(job.logs(follow=True))
    [stream] = streams(server)
    assert stream.headers["accept"] == "application/x-ndjson"
    assert stream.headers["authorization"].startswith("Bearer ")


def test_only_a_newline_ends_a_line(job, server):
    text = "a\u2028b\x85c\x0bd\r\ne"
    server.add_logs("a", text)
    # As the server writes it: pydantic leaves every character that JSON allows as it is.
    entry = json.dumps(server.logs["a"][0], ensure_ascii=False)
    server.next_responses = [lambda request: httpx.Response(200, text=f"{entry}\n")]
    server.change("a", state="failed")
    assert texts(job.logs(follow=True)) == [text]


def test_a_line_that_is_not_json_is_unexpected(job, server, respond):
    server.next_responses = [respond(200, text="<html>\n")]
    with pytest.raises(UnexpectedResponse, match="html"):
        list(job.logs(follow=True))


def test_empty_lines_are_ignored(job, server, respond):
    server.next_responses = [respond(200, text="\n\n")]
    server.change("a", state="failed")
    assert texts(job.logs(follow=True)) == []


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sizes=st.lists(st.integers(0, 400), max_size=6), refused=st.integers(0, 5))
def test_follow_reads_each_entry_once_after_any_interruptions(
    client, server, cut_response, respond, *, sizes, refused
):
    server.logs, server.changes = {}, {}
    server.add_job("h", state="running")
    lines = [f"line {number}\n" for number in range(7)]
    server.add_logs("h", *lines)
    job = client.jobs.get("h")
    server.change("h", state="succeeded")
    server.next_responses = [cut_response(size) for size in sizes]
    server.next_responses += [respond(httpx.ConnectError("refused"))] * refused
    assert texts(job.logs(follow=True)) == lines


def test_follow_continues_after_many_read_timeouts(job, server, clock):
    def time_out(request):
        clock.now_s += 30  # as long as a connection is waited for

        class TimedOutStream(httpx.SyncByteStream, httpx.AsyncByteStream):
            def __iter__(self):
                raise httpx.ReadTimeout("timed out")
                yield b""

            async def __aiter__(self):
                raise httpx.ReadTimeout("timed out")
                yield b""

        return httpx.Response(200, stream=TimedOutStream())

    server.next_responses = [time_out] * 20
    server.change("a", state="succeeded")
    server.add_logs("a", "at last\n")
    assert texts(job.logs(follow=True)) == ["at last\n"]


def test_a_stream_that_breaks_after_a_long_time_is_resumed(job, server, cut_response, clock):
    server.add_logs("a", "one\n", "two\n", "three\n")
    server.next_responses = [cut_response(-10)]
    server.change("a", state="succeeded")
    received = []
    for entry in job.logs(follow=True):
        received.append(entry.text)
        clock.sleep(1000)
    assert received == ["one\n", "two\n", "three\n"]


def test_a_server_that_stays_unreachable_is_an_error(job, server, respond):
    server.next_responses = [respond(httpx.ConnectError("refused"))] * 1000
    with pytest.raises(ConnectionFailed):
        list(job.logs(follow=True))


def test_following_a_deleted_job_raises_not_found(job, server):
    del server.jobs["a"]
    with pytest.raises(NotFound):
        list(job.logs(follow=True))
