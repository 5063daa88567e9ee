"""The worker's Celery transport while Redis stops."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from server.embedded.private_redis import PrivateRedis, start_redis
from tests.waiting import DEADLINE_S
from worker.broker import RedisTransport

log = logging.getLogger(__name__)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    server = start_redis(tmp_path, tmp_path / "redis.log")
    yield server
    server.stop(grace_s=3)


def test_a_failed_acknowledgement_frees_its_prefetch_slot(redis: PrivateRedis) -> None:
    """With kombu's own transport a worker with one slot receives no more messages after this."""
    connection: Any = Connection(redis.url, transport=RedisTransport)  # type: ignore[no-untyped-call]
    with connection, connection.SimpleQueue("jobs") as messages:
        messages.channel.basic_qos(0, 1, False)
        messages.put("a message")
        message = messages.get(timeout=DEADLINE_S)
        assert not messages.channel.qos.can_consume()
        redis.stop(grace_s=3)
        message.ack_log_error(log, connection.connection_errors)
        assert not message.acknowledged
        assert messages.channel.qos.can_consume()
