import httpx
import pytest

from ampclient import State
from ampclient.etags import MAX_CACHED_RESPONSES, EtagCache
from ampclient.requests import get_job, get_version


@pytest.fixture
def statuses(client, server, monkeypatch):
    """The status of each answer."""
    seen = []
    answer = type(server).__call__

    def record(self, request: httpx.Request) -> httpx.Response:
        response = answer(self, request)
        seen.append(response.status_code)
        return response

    monkeypatch.setattr(type(server), "__call__", record)
    return seen


def test_a_job_that_has_not_changed_costs_a_304(client, server, statuses):
    server.add_job("a")
    first, again = client.jobs.get("a"), client.jobs.get("a")
    assert statuses == [200, 304]
    assert first == again


def test_a_job_that_has_changed_is_told_anew(client, server, statuses):
    server.add_job("a")
    job = client.jobs.get("a")
    server.jobs["a"]["state"] = "running"
    assert job.refresh().state is State.RUNNING
    assert job.refresh().state is State.RUNNING
    assert statuses == [200, 200, 304]


def test_waiting_asks_for_what_is_new_alone(client, server, statuses):
    server.add_job("a", state="running")
    for _ in range(5):
        server.change("a")
    server.change("a", state="succeeded")
    client.jobs.get("a").wait()
    assert statuses == [200, 304, 304, 304, 304, 200]


def test_a_304_that_nobody_asked_for_is_unexpected(client, server, answer):
    server.next_answers = [answer(304)]
    with pytest.raises(Exception, match="redirect"):
        client.version()


def test_only_so_many_answers_are_kept_and_the_newest_stay():
    cache = EtagCache()
    for number in range(MAX_CACHED_RESPONSES + 1):
        cache.store(get_job(f"{number}"), '"tag"', number)
    assert cache.get(get_job("0")) is None
    assert cache.get(get_job(f"{MAX_CACHED_RESPONSES}")).value == MAX_CACHED_RESPONSES


def test_an_answer_is_not_kept_without_a_tag_or_where_nobody_polls():
    cache = EtagCache()
    cache.store(get_job("a"), None, 1)
    cache.store(get_version(), '"tag"', 1)
    assert (cache.get(get_job("a")), cache.get(get_version())) == (None, None)
