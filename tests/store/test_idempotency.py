from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select, update

from store import idempotency, projects
from store.clock import after
from store.idempotency import IdempotentRequest, KeyReused, StoredResponse
from store.tables import IdempotencyKey

FIRST = IdempotentRequest("default", "key", "digest")
OTHER_BODY = IdempotentRequest("default", "key", "another digest")
ANSWER = StoredResponse(201, {"Location": "/somewhere"}, '{"id": "ü"}')


@pytest.fixture
def carry_out(database):
    """Carry a request out; returns the answer of an earlier one, if there is one."""

    def work(request=FIRST, answer=ANSWER):
        with database.write() as session:
            if (known := idempotency.claim(session, request)) is not None:
                return known
            idempotency.store_response(session, request, answer)
            return None

    return work


def test_a_repeat_gets_the_answer_of_the_first_request(database, carry_out):
    assert carry_out() is None
    assert carry_out(answer=StoredResponse(200, {}, "")) == ANSWER
    with database.read() as session:
        assert idempotency.find(session, FIRST) == ANSWER
        assert idempotency.find(session, IdempotentRequest("default", "other", "digest")) is None


def test_another_request_with_the_same_key_is_refused(database, carry_out):
    carry_out()
    with pytest.raises(KeyReused):
        carry_out(OTHER_BODY)
    with database.read() as session, pytest.raises(KeyReused):
        idempotency.find(session, OTHER_BODY)


def test_projects_do_not_share_keys(database, carry_out):
    carry_out()
    with database.write() as session:
        projects.ensure(session, "other")
    assert carry_out(IdempotentRequest("other", "key", "another digest")) is None


def test_a_request_that_fails_leaves_the_key_free_for_any_other(database, carry_out):
    def fail():
        with database.write() as session:
            idempotency.claim(session, FIRST)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert carry_out(OTHER_BODY) is None


def test_a_key_that_an_older_server_left_without_an_answer_is_free(database, carry_out):
    with database.write() as session:
        idempotency.claim(session, FIRST)
    assert carry_out() is None
    assert carry_out() == ANSWER


def test_of_many_at_one_time_one_is_carried_out_and_the_others_wait_for_its_answer(carry_out):
    together = Barrier(8)

    def race(_):
        together.wait()
        return carry_out()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(race, range(8)))
    assert sorted(answers, key=bool) == [None] + 7 * [ANSWER]


def test_old_keys_are_forgotten(database, carry_out):
    carry_out()
    with database.write() as session:
        session.execute(update(IdempotencyKey).values(created_at=after(-100)))
    carry_out(IdempotentRequest("default", "new", "digest"))
    with database.write() as session:
        assert idempotency.delete_expired(session, kept_s=50) == 1
        keys = session.scalars(select(IdempotencyKey.key)).all()
        assert keys == ["new"]
        assert idempotency.delete_expired(session) == 0
        assert session.scalar(select(func.count()).select_from(IdempotencyKey)) == 1
