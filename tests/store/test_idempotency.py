from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select, update

from store.access import idempotency, projects
from store.access.idempotency import IdempotentRequest, KeyReused, StoredResponse
from store.clock import from_now
from store.tables import IdempotencyKey

FIRST = IdempotentRequest("default", "key", "digest")
OTHER_BODY = IdempotentRequest("default", "key", "another digest")
RESPONSE = StoredResponse(201, {"Location": "/somewhere"}, '{"id": "ü"}')


@pytest.fixture
def execute(database):
    """Execute a request; returns the stored response of an earlier one, or None."""

    def execute(request=FIRST, response=RESPONSE):
        with database.write() as session:
            if (stored_response := idempotency.claim(session, request)) is not None:
                return stored_response
            idempotency.store_response(session, request, response)
            return None

    return execute


def test_a_repeated_request_gets_the_stored_response(database, execute):
    assert execute() is None
    assert execute(response=StoredResponse(200, {}, "")) == RESPONSE
    with database.read() as session:
        assert idempotency.find(session, FIRST) == RESPONSE
        assert idempotency.find(session, IdempotentRequest("default", "other", "digest")) is None


def test_another_request_with_the_same_key_is_refused(database, execute):
    execute()
    with pytest.raises(KeyReused):
        execute(OTHER_BODY)
    with database.read() as session, pytest.raises(KeyReused):
        idempotency.find(session, OTHER_BODY)


def test_projects_do_not_share_keys(database, execute):
    execute()
    with database.write() as session:
        projects.ensure(session, "other")
    assert execute(IdempotentRequest("other", "key", "another digest")) is None


def test_a_failed_request_does_not_use_up_its_key(database, execute):
    def fail():
        with database.write() as session:
            idempotency.claim(session, FIRST)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert execute(OTHER_BODY) is None


def test_a_key_without_a_stored_response_can_be_used(database, execute):
    with database.write() as session:
        idempotency.claim(session, FIRST)
    assert execute() is None
    assert execute() == RESPONSE


def test_one_of_many_concurrent_requests_is_executed_and_the_others_get_its_response(execute):
    barrier = Barrier(8)

    def race(_):
        barrier.wait()
        return execute()

    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(race, range(8)))
    assert sorted(responses, key=bool) == [None] + 7 * [RESPONSE]


def test_expired_keys_are_deleted(database, execute):
    execute()
    with database.write() as session:
        session.execute(update(IdempotencyKey).values(created_at=from_now(-100)))
    execute(IdempotentRequest("default", "new", "digest"))
    with database.write() as session:
        assert idempotency.delete_expired(session, kept_s=50) == 1
        keys = session.scalars(select(IdempotencyKey.key)).all()
        assert keys == ["new"]
        assert idempotency.delete_expired(session) == 0
        assert session.scalar(select(func.count()).select_from(IdempotencyKey)) == 1
