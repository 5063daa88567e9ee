"""Job updates through Redis: notify and subscribe."""

import asyncio

import pytest
import redis.asyncio

from infra.notify import Notifier
from server.http.streaming.subscribe import Subscriptions, relay_notifications
from tests.waiting import DEADLINE_S


@pytest.fixture
def redis_url(private_redis):
    return private_redis.url


def notify_until_received(notifier, event, job_id):
    async def notify():
        async with asyncio.timeout(DEADLINE_S):
            while not event.is_set():  # a message before the subscription is lost
                await asyncio.to_thread(notifier.notify, job_id)
                await asyncio.sleep(0.02)

    return notify()


def test_a_subscription_receives_only_the_updates_of_its_job(redis_url):
    async def main():
        subscriptions, notifier = Subscriptions(), Notifier(redis_url)
        listening = asyncio.create_task(relay_notifications(redis_url, subscriptions.notify))
        with subscriptions.subscribe("a") as subscribe, subscriptions.subscribe("b") as other:
            await notify_until_received(notifier, subscribe, "a")
            assert not other.is_set()
        assert not subscriptions._waiting
        listening.cancel()
        notifier.close()

    asyncio.run(main())


def test_without_redis_a_notification_returns_at_once(monkeypatch):
    notifier = Notifier("redis://127.0.0.1:1/0")
    notifier.notify("a")
    monkeypatch.setattr(notifier, "_connected", lambda: pytest.fail("asked again too soon"))
    monkeypatch.setattr(notifier, "_retry_at", notifier._retry_at + DEADLINE_S)
    notifier.notify("a")


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "sentinel://nowhere", "nonsense"])
def test_an_unusable_redis_url_does_not_stop_the_server(url, monkeypatch):
    notifier = Notifier(url)
    notifier.notify("a")
    tries = []
    monkeypatch.setattr("server.http.streaming.subscribe.RECONNECT_S", 0.01)
    connect = redis.asyncio.Redis.from_url

    def counted(*arguments, **options):
        tries.append(arguments)
        return connect(*arguments, **options)

    monkeypatch.setattr(redis.asyncio.Redis, "from_url", counted)

    async def main():
        listening = asyncio.create_task(relay_notifications(url))
        async with asyncio.timeout(DEADLINE_S):
            while len(tries) < 3 and not listening.done():
                await asyncio.sleep(0.01)
        assert not listening.done()
        listening.cancel()

    asyncio.run(main())
