"""The rate limit that all servers share through Redis, and what holds without Redis."""

import asyncio
import logging
import socket
from contextlib import asynccontextmanager, suppress

import pytest
import redis
from limits.aio.storage import RedisStorage
from redis.asyncio import ConnectionPool

from infra.settings import SettingsInvalid
from server.embedded.private_redis import start_redis
from server.errors import TooManyRequests
from server.http.access import shared_rate_limit
from server.http.access.rate_limit import RateLimit
from server.http.access.shared_rate_limit import (
    KEY_PREFIX,
    SharedRateLimit,
    rate_limit_from_setting,
    share_counts,
)
from server.settings import Settings
from tests.environment import settings_from
from tests.tables import every_row
from tests.waiting import DEADLINE_S, wait_until

NO_REDIS = "redis://127.0.0.1:1/0"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def allowed(limit, key="ada", tries=20):
    """How many of so many hits the limit allows."""
    count = 0
    for _ in range(tries):
        with suppress(TooManyRequests):
            limit.hit(key)
            count += 1
    return count


@asynccontextmanager
async def totals_at(redis_url):
    """The counts in Redis."""
    pool = ConnectionPool.from_url(redis_url)
    yield RedisStorage(
        "redis://", implementation="redispy", key_prefix=KEY_PREFIX, connection_pool=pool
    )
    await pool.aclose()


@asynccontextmanager
async def sharing(limit, redis_url):
    """The limit's counts are shared inside."""
    task = asyncio.create_task(share_counts(limit, redis_url))
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def wait_for(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


def test_servers_share_one_limit(redis_url):
    async def main():
        here, there = SharedRateLimit("5/hour"), SharedRateLimit("5/hour")
        async with totals_at(redis_url) as totals:
            assert [allowed(here, tries=3), allowed(there, tries=1)] == [3, 1]
            await here.share(totals)
            await there.share(totals)
            assert [allowed(there), allowed(here, "bob")] == [1, 5]
            await there.share(totals)
            await here.share(totals)  # only bob: nothing new of ada's is known here
            here.hit("ada")
            await here.share(totals)
            assert [allowed(here), allowed(there)] == [0, 0]

    asyncio.run(main())


def test_hits_while_counts_are_shared_are_not_lost(redis_url):
    async def main():
        limit = SharedRateLimit("5/hour")
        async with totals_at(redis_url) as totals:
            count = totals.incr

            async def incr(*args):
                limit.hit("ada")
                return await count(*args)

            totals.incr = incr
            limit.hit("ada")
            await limit.share(totals)
            assert allowed(limit) == 3

    asyncio.run(main())


def test_a_window_ends_for_all_servers_when_it_ends_in_redis(redis_url):
    clock = Clock()

    async def main():
        here, there = SharedRateLimit("1/hour", clock), SharedRateLimit("1/hour", clock)
        async with totals_at(redis_url) as totals:
            here.hit("ada")
            await here.share(totals)
            with redis.Redis.from_url(redis_url) as connection:
                (window,) = connection.keys(f"{KEY_PREFIX}:*")
                assert 0 < connection.ttl(window) <= 3600
                connection.expire(window, 60)
            there.hit("ada")
            await there.share(totals)
        with pytest.raises(TooManyRequests, match=r"1 per 1 hour; try again in (5\d|60) s"):
            there.hit("ada")
        clock.now += 60
        there.hit("ada")

    asyncio.run(main())


@pytest.mark.parametrize("hangs", [False, True])
def test_without_redis_each_server_counts_for_itself_and_logs_it_once(hangs, caplog, monkeypatch):
    monkeypatch.setattr(shared_rate_limit, "TIMEOUT_S", 0.05)
    monkeypatch.setattr(shared_rate_limit, "SHARE_S", 0.01)
    limit = SharedRateLimit("5/hour")

    async def main(url):
        async with sharing(limit, url):
            assert allowed(limit) == 5
            await wait_for(lambda: caplog.records)
            await wait_for(lambda: not limit._unshared)
            assert allowed(limit) == 0
            await wait_for(lambda: not limit._unshared)

    with (
        caplog.at_level(logging.INFO, logger="server.http.access"),
        socket.create_server(("127.0.0.1", 0)) as listener,  # accepts, and never answers
    ):
        silent = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        asyncio.run(main(silent if hangs else NO_REDIS))
    (record,) = caplog.records
    assert "Redis is unavailable; each server counts requests for itself" in record.getMessage()


def test_a_redis_that_is_back_counts_for_all_again(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(shared_rate_limit, "SHARE_S", 0.01)
    here, there = SharedRateLimit("5/hour"), SharedRateLimit("5/hour")
    server = start_redis(tmp_path, tmp_path / "redis.log")

    def messages():
        return [record.getMessage().partition(";")[0] for record in caplog.records]

    async def main():
        async with sharing(here, server.url):
            here.hit("ada")
            await wait_for(lambda: not here._unshared)
            server.stop(grace_s=DEADLINE_S)
            here.hit("ada")
            await wait_for(lambda: messages() == ["Redis is unavailable"])
            server.start()
            await asyncio.to_thread(wait_until, server.wait_ready)
            here.hit("ada")
            await wait_for(lambda: messages() == ["Redis is unavailable", "Redis is back"])
        async with totals_at(server.url) as totals:
            there.hit("ada")
            await there.share(totals)
        assert allowed(there) == 3  # Redis restarted empty: one hit of each server

    with caplog.at_level(logging.INFO, logger="server.http.access"):
        asyncio.run(main())
    server.stop(grace_s=1)


@every_row("rate", ["off", "1/second", "60000/minute", "5/day"])
def test_a_valid_rate_is_accepted(rate):
    assert settings_from(Settings, {"AMPCORE_RATE_LIMIT": rate}).rate_limit == rate
    assert (rate_limit_from_setting(rate) is None) == (rate == "off")


@every_row("rate", ["0/minute", "5", "fast", "-1/second", "5/fortnight", "1/s;2/m"])
def test_an_invalid_rate_is_refused(rate):
    with pytest.raises(SettingsInvalid, match="AMPCORE_RATE_LIMIT: expected off, or"):
        settings_from(Settings, {"AMPCORE_RATE_LIMIT": rate})


@pytest.fixture
def limited(api):
    """The api, with a rate that is soon used up."""
    from server.http.access.auth_middleware import AuthMiddleware

    layer = next(one for one in api.app.user_middleware if one.cls is AuthMiddleware)
    layer.kwargs["limit"] = RateLimit("3/minute")
    return api


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


def test_too_many_requests_of_a_token_get_429_with_retry_after(limited, client_with_role):
    for _ in range(3):
        assert limited.client.get("/api/v1/version").status_code == 200
    answer = limited.client.get("/api/v1/version")
    assert answer.status_code == 429
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "too_many_requests"
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert client_with_role().get("/api/v1/version").status_code == 200
    assert limited.anonymous.get("/healthz").status_code == 200


def test_sessions_share_the_limit_of_their_token(limited):
    sign_in = limited.anonymous.post("/api/v1/session", json={"token": limited.token})
    headers = {"Cookie": sign_in.headers["Set-Cookie"].partition(";")[0]}
    limited.anonymous.cookies.clear()
    for _ in range(3):
        assert limited.client.get("/api/v1/version").status_code == 200
    assert limited.anonymous.get("/api/v1/version", headers=headers).status_code == 429
