import base64
import json
import socket

import pytest
import redis

from server.dispatch import TIMEOUT_S, CeleryDispatcher, RedisUnavailable, dispatch_jobs
from server.embedded.private_redis import start_redis
from service.celery_names import TASK_NAME, queue_key
from store import workers


@pytest.fixture
def celery_dispatcher(redis_url):
    dispatcher = CeleryDispatcher(redis_url)
    yield dispatcher
    dispatcher.close()


@pytest.fixture
def silent_server():
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_a_message_carries_the_id_of_the_job_and_nothing_else(celery_dispatcher, redis_url):
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
    for ask in (lambda: dispatcher.send("0123456789ab", "default"), dispatcher.pending_messages):
        with pytest.raises(RedisUnavailable):
            ask()
    dispatcher.close()


def test_messages_go_out_again_once_redis_is_back(tmp_path, wait_until):
    server = start_redis(tmp_path, tmp_path / "redis.log")
    dispatcher = CeleryDispatcher(server.url)
    dispatcher.send("first", "default")
    server.stop(grace_s=3)
    with pytest.raises(RedisUnavailable):
        dispatcher.send("lost", "default")
    server.start()
    try:
        assert server.wait_ready()

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


def test_jobs_are_rung_in_their_queues(database, make_job, dispatcher):
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
    ids=str,
)
def test_a_job_that_computes_in_float16_rather_goes_to_a_gpu(
    database, make_job, dispatcher, parts, queue
):
    job = make_job(**parts)
    dispatch_jobs(database, dispatcher, [job])
    assert dispatcher.queues == [job.queue]  # nobody has a GPU
    with database.write() as session:
        known = {"hostname": "h", "pid": 1, "slots": 1, "version": "1"}
        workers.register(session, "w", queues=["default", "gpu"], **known)
    dispatch_jobs(database, dispatcher, [job])
    assert dispatcher.queues[-1] == queue


def test_a_gpu_that_takes_no_jobs_of_the_default_queue_is_not_rung_for_them(
    database, make_job, dispatcher
):
    with database.write() as session:
        known = {"hostname": "h", "pid": 1, "slots": 1, "version": "1"}
        workers.register(session, "w", queues=["gpu"], **known)
    dispatch_jobs(database, dispatcher, [make_job(precision={"policy": "mixed_float16"})])
    assert dispatcher.queues == ["default"]


def test_a_database_that_fails_keeps_no_message_back(make_job, dispatcher, sqlite_url):
    from store.database import Database

    job = make_job(precision={"policy": "mixed_float16"})
    nowhere = Database(sqlite_url.replace("ampcore.sqlite", "no/such.sqlite"))
    assert dispatch_jobs(nowhere, dispatcher, [job])
    assert (dispatcher.sent, dispatcher.queues) == ([job.id], ["default"])
    nowhere.close()


def test_a_redis_that_is_gone_fails_no_request(database, make_job, dispatcher):
    dispatcher.gone = True
    assert not dispatch_jobs(database, dispatcher, [make_job()])
