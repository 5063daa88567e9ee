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


def test_logs_follow_every_page(job, server):
    server.add_logs("a", "one\n", "two\n", "three\n")
    server.logs_per_page = 2
    entries = list(job.logs())
    assert texts(entries) == ["one\n", "two\n", "three\n"]
    assert (entries[0].stream, entries[0].attempt) == ("stdout", 1)
    assert texts(job.logs(after=entries[1].seq)) == ["three\n"]


def test_logs_of_one_attempt(job, server):
    server.add_logs("a", "one\n")
    server.add_logs("a", "two\n", attempt=2)
    assert texts(job.logs(attempt=2)) == ["two\n"]


def test_follow_ends_with_the_job_and_reads_what_came_last(job, server):
    server.add_logs("a", "one\n")
    server.changes["a"] = [lambda: server.add_logs("a", "two\n")]
    server.change("a", state="succeeded")
    assert texts(job.logs(follow=True)) == ["one\n", "two\n"]
    assert len(streams(server)) == 2


def test_follow_reads_what_came_between_the_stream_and_the_end(job, server):
    def end():
        server.add_logs("a", "last\n")
        server.jobs["a"]["state"] = "failed"

    server.changes["a"] = [end]
    assert texts(job.logs(follow=True)) == ["last\n"]


def test_follow_of_a_job_that_has_ended_reads_it_once(client, server):
    server.add_job("z", state="failed")
    server.add_logs("z", "one\n")
    assert texts(client.jobs.get("z").logs(follow=True)) == ["one\n"]


def test_follow_asks_for_lines_of_json(job, server):
    server.change("a", state="failed")
    list(job.logs(follow=True))
    [stream] = streams(server)
    assert stream.headers["accept"] == "application/x-ndjson"
    assert stream.headers["authorization"].startswith("Bearer ")


def test_whatever_ends_lines_elsewhere_ends_none_here(job, server):
    strange = "a\u2028b\x85c\x0bd\r\ne"
    server.add_logs("a", strange)
    # As the server writes it: pydantic leaves every character that JSON allows as it is.
    entry = json.dumps(server.logs["a"][0], ensure_ascii=False)
    server.next_answers = [lambda request: httpx.Response(200, text=f"{entry}\n")]
    server.change("a", state="failed")
    assert texts(job.logs(follow=True)) == [strange]


def test_a_line_that_is_no_json_is_unexpected(job, server, answer):
    server.next_answers = [answer(200, text="<html>\n")]
    with pytest.raises(UnexpectedResponse, match="html"):
        list(job.logs(follow=True))


def test_empty_lines_say_only_that_the_connection_lives(job, server, answer):
    server.next_answers = [answer(200, text="\n\n")]
    server.change("a", state="failed")
    assert texts(job.logs(follow=True)) == []


@settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sizes=st.lists(st.integers(0, 400), max_size=6), refused=st.integers(0, 5))
def test_follow_neither_repeats_nor_loses_an_entry_however_its_streams_break(
    client, server, cut, answer, *, sizes, refused
):
    server.logs, server.changes = {}, {}
    server.add_job("h", state="running")
    lines = [f"line {number}\n" for number in range(7)]
    server.add_logs("h", *lines)
    job = client.jobs.get("h")
    server.change("h", state="succeeded")
    server.next_answers = [cut(size) for size in sizes]
    server.next_answers += [answer(httpx.ConnectError("refused"))] * refused
    assert texts(job.logs(follow=True)) == lines


def test_a_quiet_job_is_followed_however_long(job, server, clock):
    def quiet(request):
        clock.now_s += 30  # as long as a connection is waited for

        class Silence(httpx.SyncByteStream, httpx.AsyncByteStream):
            def __iter__(self):
                raise httpx.ReadTimeout("timed out")
                yield b""

            async def __aiter__(self):
                raise httpx.ReadTimeout("timed out")
                yield b""

        return httpx.Response(200, stream=Silence())

    server.next_answers = [quiet] * 20
    server.change("a", state="succeeded")
    server.add_logs("a", "at last\n")
    assert texts(job.logs(follow=True)) == ["at last\n"]


def test_a_stream_that_breaks_after_a_long_time_is_gone_on_with(job, server, cut, clock):
    server.add_logs("a", "one\n", "two\n", "three\n")
    server.next_answers = [cut(-10)]
    server.change("a", state="succeeded")
    told = []
    for entry in job.logs(follow=True):
        told.append(entry.text)
        clock.sleep(1000)
    assert told == ["one\n", "two\n", "three\n"]


def test_a_server_that_is_away_too_long_is_an_error(job, server, answer):
    server.next_answers = [answer(httpx.ConnectError("refused"))] * 1000
    with pytest.raises(ConnectionFailed):
        list(job.logs(follow=True))


def test_a_job_that_is_deleted_meanwhile_is_not_found(job, server):
    del server.jobs["a"]
    with pytest.raises(NotFound):
        list(job.logs(follow=True))
