import base64
import json
import socket

import pytest
import redis

from infra.celery_names import TASK_NAME, queue_key
from server.dispatch import TIMEOUT_S, CeleryDispatcher, RedisUnavailable, dispatch_jobs
from server.embedded.private_redis import start_redis
from store import workers


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: nothing here depends on the database."""
    return sqlite_url


@pytest.fixture
def celery_dispatcher(redis_url):
    dispatcher = CeleryDispatcher(redis_url)
    yield dispatcher
    dispatcher.close()


@pytest.fixture
def silent_server():
    """A server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_a_message_has_only_the_id_of_the_job(celery_dispatcher, redis_url):
    celery_dispatcher.send("0123456789ab", "big")
    assert (celery_dispatcher.pending_messages("big"), celery_dispatcher.pending_messages()) == (
        1,
        0,
    )
    with redis.Redis.from_url(redis_url) as connection:
        [text] = connection.lrange(queue_key("big"), 0, -1)
        message = json.loads(text)
        assert message["headers"]["task"] == TASK_NAME
        assert message["content-type"] == "application/json"
        arguments, options, _ = json.loads(base64.b64decode(message["body"]))
        assert (arguments, options) == (["0123456789ab"], {})
        assert not connection.scan(match="celery-task-meta*", count=1000)[1]


@pytest.mark.parametrize("dead", ["refused", "silent"])
def test_an_unavailable_redis_raises_at_once(dead, silent_server):
    assert TIMEOUT_S <= 1
    dispatcher = CeleryDispatcher("redis://127.0.0.1:1/0" if dead == "refused" else silent_server)
    for call in (lambda: dispatcher.send("0123456789ab", "default"), dispatcher.pending_messages):
        with pytest.raises(RedisUnavailable):
            call()
    dispatcher.close()


def test_messages_are_sent_again_once_redis_is_back(tmp_path, wait_until):
    server = start_redis(tmp_path, tmp_path / "redis.log")
    dispatcher = CeleryDispatcher(server.url)
    dispatcher.send("first", "default")
    server.stop(grace_s=3)
    with pytest.raises(RedisUnavailable):
        dispatcher.send("lost", "default")
    server.start()
    try:
        wait_until(server.wait_ready)

        def sent():
            try:
                dispatcher.send("later", "default")
            except RedisUnavailable:
                return False
            return True

        wait_until(sent)
        assert dispatcher.pending_messages() == 1
    finally:
        dispatcher.close()
        server.stop(grace_s=3)


def test_a_message_goes_to_the_queue_of_its_job(database, make_job, dispatcher):
    made = [make_job(runtime=parts) for parts in ({}, {"device": "gpu"}, {"queue": "big"})]
    assert dispatch_jobs(database, dispatcher, made)
    assert dispatcher.sent == [job.id for job in made]
    assert dispatcher.queues == ["default", "gpu", "big"]


@pytest.mark.parametrize(
    ("parts", "queue"),
    [
        ({"precision": {"policy": "mixed_float16"}}, "gpu"),
        ({"precision": {"policy": "O2"}}, "gpu"),
        ({"precision": {"policy": "O0"}}, "default"),
        ({"precision": {"policy": "mixed_bfloat16"}}, "default"),
        ({"precision": {"policy": "float16"}, "runtime": {"device": "cpu"}}, "cpu"),
        ({"precision": {"policy": "float16"}, "runtime": {"queue": "big"}}, "big"),
    ],
)
def test_a_float16_job_goes_to_the_gpu_queue_if_a_worker_serves_it(
    database, make_job, dispatcher, parts, queue
):
    job = make_job(**parts)
    dispatch_jobs(database, dispatcher, [job])
    assert dispatcher.queues == [job.queue]  # no worker serves the GPU queue
    with database.write() as session:
        known = {"hostname": "h", "pid": 1, "slots": 1, "version": "1"}
        workers.register(session, "w", queues=["default", "gpu"], **known)
    dispatch_jobs(database, dispatcher, [job])
    assert dispatcher.queues[-1] == queue


def test_a_float16_job_stays_in_the_default_queue_if_no_gpu_worker_serves_that_queue(
    database, make_job, dispatcher
):
    with database.write() as session:
        known = {"hostname": "h", "pid": 1, "slots": 1, "version": "1"}
        workers.register(session, "w", queues=["gpu"], **known)
    dispatch_jobs(database, dispatcher, [make_job(precision={"policy": "mixed_float16"})])
    assert dispatcher.queues == ["default"]


def test_messages_are_sent_when_the_database_fails(make_job, dispatcher, sqlite_url):
    from store.database import Database

    job = make_job(precision={"policy": "mixed_float16"})
    missing_database = Database(sqlite_url.replace("ampcore.sqlite", "no/such.sqlite"))
    assert dispatch_jobs(missing_database, dispatcher, [job])
    assert (dispatcher.sent, dispatcher.queues) == ([job.id], ["default"])
    missing_database.close()


def test_dispatching_without_redis_raises_no_error(database, make_job, dispatcher):
    dispatcher.gone = True
    assert not dispatch_jobs(database, dispatcher, [make_job()])
