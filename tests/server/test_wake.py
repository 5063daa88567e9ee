import base64
import json
import socket
import time

import pytest
import redis

from server.embedded.private_redis import start_redis
from server.wake import QUEUE, TASK, CeleryWake, RedisGone, wake_workers
from store import jobs


@pytest.fixture
def celery_wake(redis_url):
    wake = CeleryWake(redis_url)
    yield wake
    wake.close()


@pytest.fixture
def silent_server():
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_a_message_carries_the_id_of_the_job_and_nothing_else(celery_wake, redis_url):
    celery_wake.send("0123456789ab")
    assert celery_wake.waiting() == 1
    with redis.Redis.from_url(redis_url) as connection:
        [text] = connection.lrange(QUEUE, 0, -1)
        message = json.loads(text)
        assert message["headers"]["task"] == TASK
        assert message["content-type"] == "application/json"
        arguments, options, _ = json.loads(base64.b64decode(message["body"]))
        assert (arguments, options) == (["0123456789ab"], {})
        assert not connection.scan(match="celery-task-meta*", count=1000)[1]


@pytest.mark.parametrize("dead", ["refused", "silent"])
def test_a_redis_that_is_gone_is_told_within_a_second_or_so(dead, silent_server):
    wake = CeleryWake("redis://127.0.0.1:1/0" if dead == "refused" else silent_server)
    for ask in (lambda: wake.send("0123456789ab"), wake.waiting):
        began = time.monotonic()
        with pytest.raises(RedisGone):
            ask()
        assert time.monotonic() - began < 2
    wake.close()


def test_messages_go_out_again_once_redis_is_back(tmp_path, wait_until):
    server = start_redis(tmp_path, tmp_path / "redis.log")
    wake = CeleryWake(server.url)
    wake.send("first")
    server.stop(grace_s=3)
    with pytest.raises(RedisGone):
        wake.send("lost")
    server.start()
    try:
        assert server.wait_ready()

        def sent():
            try:
                wake.send("later")
            except RedisGone:
                return False
            return True

        wait_until(sent)
        assert wake.waiting() == 1
    finally:
        wake.close()
        server.stop(grace_s=3)


def test_a_database_that_fails_after_the_message_breaks_nothing(database, make_job, wake):
    job_id = make_job().id
    database.close()

    class Broken:
        def write(self):
            from sqlalchemy.exc import OperationalError

            raise OperationalError("UPDATE", {}, Exception("gone"))

    wake_workers(Broken(), wake, [job_id])
    assert wake.sent == [job_id]


def test_jobs_after_the_first_that_fails_stay_to_be_woken(database, make_job, wake):
    made = [make_job().id for _ in range(2)]
    wake.gone = True
    wake_workers(database, wake, made)
    with database.read() as session:
        assert sorted(jobs.to_wake(session, quiet_s=3, limit=9)) == sorted(made)
