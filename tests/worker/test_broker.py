"""What a worker hears of Redis, while that comes and goes."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from server.embedded.private_redis import PrivateRedis, start_redis
from tests.waiting import DEADLINE_S
from worker.broker import Transport

log = logging.getLogger(__name__)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    server = start_redis(tmp_path, tmp_path / "redis.log")
    yield server
    server.stop(grace_s=3)


def test_a_message_whose_acknowledgement_is_lost_takes_up_no_place(redis: PrivateRedis) -> None:
    """With kombu's own transport a worker with one slot never listens again after this."""
    connection: Any = Connection(redis.url, transport=Transport)  # type: ignore[no-untyped-call]
    with connection, connection.SimpleQueue("bells") as bells:
        bells.channel.basic_qos(0, 1, False)
        bells.put("a bell")
        message = bells.get(timeout=DEADLINE_S)
        assert not bells.channel.qos.can_consume()
        redis.stop(grace_s=3)
        message.ack_log_error(log, connection.connection_errors)
        assert not message.acknowledged
        assert bells.channel.qos.can_consume()
