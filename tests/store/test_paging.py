"""Pages of a list that are read while jobs are created, changed and deleted."""

import secrets
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import jobs, projects, search
from store.database import Database
from store.jobs import Origin
from store.search import Search, Sort

STAYS = (Sort.CREATED_AT, Sort.NEWEST)
NAMES = st.sampled_from(["a", "b", "c", "d"])
CHANGES = st.one_of(
    st.tuples(st.just("name"), NAMES),
    st.tuples(st.just("priority"), st.integers(0, 9)),
    st.tuples(st.just("labels"), st.just({"touched": "yes"})),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("edit"), st.integers(0, 20), CHANGES),
    st.tuples(st.just("add"), NAMES),
    st.tuples(st.just("remove"), st.integers(0, 20)),
)
LOST = 100
"""Pages: a walk that takes so many never ends."""


class Walk:
    """A project of its own, whose list is read while the jobs in it change."""

    def __init__(self, database, make_spec):
        self.database, self.make_spec = database, make_spec
        self.wanted = Search(project=f"p{secrets.token_hex(8)}")
        self.there, self.seen = [], []
        with database.write() as session:
            projects.ensure(session, self.wanted.project)

    def add(self, name):
        spec = self.make_spec(name=name)
        with self.database.write() as session:
            self.there.append(jobs.create(session, spec, Origin(self.wanted.project)).id)

    def in_transaction(self, operation, *what):
        if operation == "add":
            self.add(*what)
        elif self.there:
            job_id = self.there[what[0] % len(self.there)]
            with self.database.write() as session:
                if operation == "edit":
                    name, value = what[1]
                    jobs.edit(session, job_id, {name: value})
                    return
                jobs.request_cancel(session, job_id)
                jobs.delete_job(session, job_id)
            self.there.remove(job_id)

    def page(self, sort, after_position, limit):
        with self.database.read() as session:
            page = search.page(
                session, self.wanted, sort=sort, after_position=after_position, limit=limit
            )
            self.seen += [job.id for job in page.jobs]
            assert len(page.jobs) <= limit
            return page.next


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    sort=st.sampled_from(Sort),
    limit=st.integers(1, 4),
    names=st.lists(NAMES, min_size=2, max_size=8),
    deeds=st.lists(st.lists(OPERATIONS, max_size=3), max_size=8),
)
def test_a_job_that_matches_all_the_time_is_listed(
    *, database, make_spec, sort, limit, names, deeds
):
    """Fails without the jobs that moved: one goes from behind the cursor to before it."""
    walk = Walk(database, make_spec)
    for name in names:
        walk.add(name)
    at_first = list(walk.there)
    after_position = walk.page(sort, None, limit)
    for _ in range(LOST):
        if after_position is None:
            break
        for operation in deeds.pop() if deeds else ():
            walk.in_transaction(*operation)
        after_position = walk.page(sort, after_position, limit)
    assert after_position is None
    stayed = {job_id for job_id in at_first if job_id in walk.there}
    assert stayed <= set(walk.seen)
    if sort in STAYS:
        assert len(walk.seen) == len(set(walk.seen))


@pytest.mark.parametrize("sort", ["name", "-priority", "-updated_at"])
def test_a_job_that_moves_to_the_front_is_listed(database, make_spec, sort):
    walk = Walk(database, make_spec)
    for name in "bcd":
        walk.add(name)
    order = []
    after_position = None
    for _ in range(10):
        after_position = walk.page(Sort(sort), after_position, 1)
        order.append(walk.seen[-1])
        if len(order) == 1:
            mover = next(job_id for job_id in reversed(walk.there) if job_id not in order)
            with database.write() as session:
                jobs.edit(session, mover, {"name": "a", "priority": 9})
        if after_position is None:
            break
    assert set(order) == set(walk.there)


def test_a_change_that_was_under_way_when_the_walk_began_is_noticed(postgres_url, make_spec):
    """Fails without the moments before the walk: the change is older, and committed later."""
    with closing(Database(postgres_url)) as database:
        walk = Walk(database, make_spec)
        for name in "bcd":
            walk.add(name)
        with database.write() as session:
            jobs.edit(session, walk.there[2], {"name": "a"})
            session.flush()
            after_position = walk.page(Sort.NAME, None, 1)
        while after_position is not None:
            after_position = walk.page(Sort.NAME, after_position, 1)
    assert set(walk.seen) == set(walk.there)


def test_jobs_that_change_all_the_time_do_not_make_a_list_endless(database, make_spec):
    walk = Walk(database, make_spec)
    for name in "abcde":
        walk.add(name)
    after_position = walk.page(Sort.UPDATED_AT, None, 1)
    for _ in range(LOST):
        if after_position is None:
            break
        walk.in_transaction("edit", len(walk.seen), ("labels", {"page": str(len(walk.seen))}))
        walk.in_transaction("add", "new")
        after_position = walk.page(Sort.UPDATED_AT, after_position, 1)
    assert after_position is None
