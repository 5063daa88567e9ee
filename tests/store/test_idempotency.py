from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select, update

from store import idempotency
from store.clock import after
from store.idempotency import Answer, InFlight, Keyed, KeyReused, TakenOver
from store.tables import IdempotencyKey

FIRST = Keyed("default", "key", "digest")
OTHER_BODY = Keyed("default", "key", "another digest")
ANSWER = Answer(201, {"Location": "/somewhere"}, '{"id": "ü"}')


@pytest.fixture
def begin(database):
    """Begin a request, in a transaction of its own."""

    def work(request=FIRST):
        with database.write() as session:
            return idempotency.begin(session, request)

    return work


@pytest.fixture
def finish(database):
    def work(begun, request=FIRST, answer=ANSWER):
        with database.write() as session:
            idempotency.finish(session, request, begun, answer)

    return work


@pytest.fixture
def abandon(database):
    def work(begun, request=FIRST):
        with database.write() as session:
            idempotency.abandon(session, request, begun)

    return work


@pytest.fixture
def let_pass(database):
    """So many seconds go by for every key."""

    def age(seconds):
        with database.write() as session:
            session.execute(update(IdempotencyKey).values(created_at=after(-seconds)))

    return age


def test_a_repeat_gets_the_answer_of_the_first_request(begin, finish):
    finish(begin())
    assert begin() == ANSWER


def test_a_repeat_while_the_first_is_under_way_is_refused(begin):
    begin()
    with pytest.raises(InFlight):
        begin()


@pytest.mark.parametrize("finished", [False, True])
def test_another_request_with_the_same_key_is_refused(begin, finish, finished):
    begun = begin()
    if finished:
        finish(begun)
    with pytest.raises(KeyReused):
        begin(OTHER_BODY)


def test_projects_do_not_share_keys(database, begin):
    from store import projects

    begin()
    with database.write() as session:
        projects.ensure(session, "other")
    assert begin(Keyed("other", "key", "another digest"))


def test_an_abandoned_key_is_free_for_any_request(begin, abandon):
    abandon(begin())
    assert begin(OTHER_BODY)


def test_a_request_that_crashed_is_taken_over_after_a_minute_and_not_before(begin, let_pass):
    begin()
    let_pass(idempotency.STALE_S - 5)
    with pytest.raises(InFlight):
        begin()
    let_pass(idempotency.STALE_S + 1)
    assert begin()
    with pytest.raises(InFlight):
        begin()


def test_who_was_taken_over_can_neither_finish_nor_abandon(begin, finish, abandon, let_pass):
    late = begin()
    let_pass(idempotency.STALE_S + 1)
    taken = begin()
    with pytest.raises(TakenOver):
        finish(late)
    abandon(late)
    finish(taken)
    assert begin() == ANSWER


def test_an_answered_key_is_never_taken_over(begin, finish, let_pass):
    finish(begin())
    let_pass(idempotency.STALE_S + 1)
    assert begin() == ANSWER


def test_of_many_at_one_time_exactly_one_begins(begin):
    together = Barrier(8)

    def race(_):
        together.wait()
        try:
            return begin()
        except InFlight:
            return None

    with ThreadPoolExecutor(8) as pool:
        begun = [moment for moment in pool.map(race, range(8)) if moment is not None]
    assert len(begun) == 1


def test_of_many_that_take_over_at_one_time_exactly_one_does(begin, let_pass):
    begin()
    let_pass(idempotency.STALE_S + 1)
    test_of_many_at_one_time_exactly_one_begins(begin)


def test_old_keys_are_forgotten(database, begin, finish, let_pass):
    finish(begin())
    let_pass(100)
    begin(Keyed("default", "new", "digest"))
    with database.write() as session:
        assert idempotency.forget_old(session, kept_s=50) == 1
        keys = session.scalars(select(IdempotencyKey.key)).all()
        assert keys == ["new"]
        assert idempotency.forget_old(session) == 0
        assert session.scalar(select(func.count()).select_from(IdempotencyKey)) == 1
