import httpx
import pytest

from ampclient import State
from ampclient._endpoints import get_job, get_version
from ampclient._http.etags import MAX_CACHED_RESPONSES, EtagCache


@pytest.fixture
def statuses(client, server, monkeypatch):
    """The status of each response."""
    seen = []
    call = type(server).__call__

    def record(self, request: httpx.Request) -> httpx.Response:
        response = call(self, request)
        seen.append(response.status_code)
        return response

    monkeypatch.setattr(type(server), "__call__", record)
    return seen


def test_an_unchanged_job_gets_a_304_response(client, server, statuses):
    server.add_job("a")
    first, again = client.jobs.get("a"), client.jobs.get("a")
    assert statuses == [200, 304]
    assert first == again


def test_a_changed_job_is_sent_again(client, server, statuses):
    server.add_job("a")
    job = client.jobs.get("a")
    server.jobs["a"]["state"] = "running"
    assert job.refresh().state is State.RUNNING
    assert job.refresh().state is State.RUNNING
    assert statuses == [200, 200, 304]


def test_wait_gets_304_responses_until_the_job_changes(client, server, statuses):
    server.add_job("a", state="running")
    for _ in range(5):
        server.change("a")
    server.change("a", state="succeeded")
    client.jobs.get("a").wait()
    assert statuses == [200, 200, 304, 304, 304, 200]


def test_a_304_response_to_an_unconditional_request_is_an_error(client, server, respond):
    server.next_responses = [respond(304)]
    with pytest.raises(Exception, match="redirect"):
        client.version()


def test_the_cache_keeps_only_the_newest_responses():
    cache = EtagCache()
    for number in range(MAX_CACHED_RESPONSES + 1):
        cache.store(get_job(f"{number}"), '"tag"', number)
    assert cache.get(get_job("0")) is None
    assert cache.get(get_job(f"{MAX_CACHED_RESPONSES}")).value == MAX_CACHED_RESPONSES


def test_a_response_without_an_etag_or_for_an_unpolled_path_is_not_cached():
    cache = EtagCache()
    cache.store(get_job("a"), None, 1)
    cache.store(get_version(), '"tag"', 1)
    assert (cache.get(get_job("a")), cache.get(get_version())) == (None, None)
