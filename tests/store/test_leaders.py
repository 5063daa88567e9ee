"""Of several servers one leads a background task, until it stops or its lease expires."""

import threading

from sqlalchemy import update

from store import leaders
from store.clock import from_now
from store.tables import Leader
from tests.waiting import join


def expire(database):
    with database.write() as session:
        session.execute(update(Leader).values(lease_expires_at=from_now(-0.001)))


def test_one_server_leads_until_its_lease_expires(database):
    assert leaders.lead(database, "task", "a")
    assert leaders.lead(database, "task", "a")
    assert not leaders.lead(database, "task", "b")
    expire(database)
    assert leaders.lead(database, "task", "b")
    assert not leaders.lead(database, "task", "a")


def test_tasks_have_leaders_of_their_own(database):
    assert leaders.lead(database, "task", "a")
    assert leaders.lead(database, "other", "b")


def test_a_leader_renews_its_lease_before_it_expires(database):
    leaders.lead(database, "task", "a")
    with database.write() as session:
        session.execute(
            update(Leader).values(lease_expires_at=from_now(leaders.LEADER_LEASE_S / 4))
        )
        [leader] = session.scalars(update(Leader).values(task="task").returning(Leader))
        expires_at = leader.lease_expires_at
    assert leaders.lead(database, "task", "a")
    with database.read() as session:
        assert session.get_one(Leader, "task").lease_expires_at > expires_at


def test_a_leader_that_resigns_is_followed_at_once(database):
    leaders.lead(database, "task", "a")
    leaders.resign(database, "task", "b")  # does not lead
    assert not leaders.lead(database, "task", "b")
    leaders.resign(database, "task", "a")
    assert leaders.lead(database, "task", "b")


def test_servers_that_start_at_once_agree_on_a_leader(database):
    names, start, leading = "abcd", threading.Barrier(4), []

    def run(name):
        start.wait()
        if leaders.lead(database, "task", name):
            leading.append(name)

    threads = [threading.Thread(target=run, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert len(leading) == 1
