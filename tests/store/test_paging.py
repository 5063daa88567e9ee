"""Pages of a job list, read while jobs are created, edited and deleted."""

import secrets
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import job_metrics
from store.access import projects
from store.database import Database
from store.jobs import jobs
from store.jobs.jobs import Origin
from store.listing import search
from store.listing.job_order import MetricSort, Sort
from store.listing.search_filters import Search

METRIC = "val_loss"
SORTS = [*Sort, MetricSort(METRIC), MetricSort(METRIC, descends=True)]
SORTED_BY_CREATION = (Sort.CREATED_AT, Sort.NEWEST)
NAMES = st.sampled_from(["a", "b", "c", "d"])
CHANGES = st.one_of(
    st.tuples(st.just("name"), NAMES),
    st.tuples(st.just("priority"), st.integers(0, 9)),
    st.tuples(st.just("labels"), st.just({"touched": "yes"})),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("edit"), st.integers(0, 20), CHANGES),
    st.tuples(st.just("add"), NAMES),
    st.tuples(st.just("evaluate"), st.integers(0, 20), st.sampled_from([0.5, 1.0, 1.5, None])),
    st.tuples(st.just("remove"), st.integers(0, 20)),
)
MAX_PAGES = 100
"""A list with as many pages counts as endless."""


class ListReader:
    """Reads the job list of its own project while the jobs change."""

    def __init__(self, database, make_spec):
        self.database, self.make_spec = database, make_spec
        self.search = Search(project=f"p{secrets.token_hex(8)}")
        self.job_ids, self.seen = [], []
        with database.write() as session:
            projects.ensure(session, self.search.project)

    def add(self, name):
        spec = self.make_spec(name=name)
        with self.database.write() as session:
            self.job_ids.append(jobs.create(session, spec, Origin(self.search.project)).id)

    def apply(self, operation, *what):
        if operation == "add":
            self.add(*what)
        elif self.job_ids:
            job_id = self.job_ids[what[0] % len(self.job_ids)]
            with self.database.write() as session:
                if operation == "edit":
                    name, value = what[1]
                    jobs.edit(session, job_id, {name: value})
                    return
                if operation == "evaluate":
                    metrics = {} if what[1] is None else {METRIC: what[1]}
                    job_metrics.replace(session, job_id, metrics)
                    return
                jobs.request_cancel(session, job_id)
                jobs.delete_job(session, job_id)
            self.job_ids.remove(job_id)

    def page(self, sort, after_position, limit):
        with self.database.read() as session:
            page = search.page(
                session, self.search, sort=sort, after_position=after_position, limit=limit
            )
            self.seen += [job.id for job in page.jobs]
            assert len(page.jobs) <= limit
            return page.next


@settings(
    max_examples=35,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    sort=st.sampled_from(SORTS),
    limit=st.integers(1, 4),
    names=st.lists(NAMES, min_size=2, max_size=8),
    operations=st.lists(st.lists(OPERATIONS, max_size=3), max_size=8),
)
def test_a_job_that_matches_throughout_is_listed(
    *, database, make_spec, sort, limit, names, operations
):
    """Fails if moved jobs are not listed again: a change can move a job to before the cursor."""
    reader = ListReader(database, make_spec)
    for name in names:
        reader.add(name)
    initial_ids = list(reader.job_ids)
    after_position = reader.page(sort, None, limit)
    for _ in range(MAX_PAGES):
        if after_position is None:
            break
        for operation in operations.pop() if operations else ():
            reader.apply(*operation)
        after_position = reader.page(sort, after_position, limit)
    assert after_position is None
    kept_ids = {job_id for job_id in initial_ids if job_id in reader.job_ids}
    assert kept_ids <= set(reader.seen)
    if sort in SORTED_BY_CREATION:
        assert len(reader.seen) == len(set(reader.seen))


@pytest.mark.parametrize("sort", ["name", "-priority", "-updated_at"])
def test_a_job_that_moves_to_the_front_is_listed(database, make_spec, sort):
    reader = ListReader(database, make_spec)
    for name in "bcd":
        reader.add(name)
    order = []
    after_position = None
    for _ in range(10):
        after_position = reader.page(Sort(sort), after_position, 1)
        order.append(reader.seen[-1])
        if len(order) == 1:
            moved_id = next(job_id for job_id in reversed(reader.job_ids) if job_id not in order)
            with database.write() as session:
                jobs.edit(session, moved_id, {"name": "a", "priority": 9})
        if after_position is None:
            break
    assert set(order) == set(reader.job_ids)


def test_a_job_changed_by_a_transaction_open_at_the_first_page_is_listed(postgres_url, make_spec):
    """Fails without a margin before the first page: the change is older but committed later."""
    with closing(Database(postgres_url)) as database:
        reader = ListReader(database, make_spec)
        for name in "bcd":
            reader.add(name)
        with database.write() as session:
            jobs.edit(session, reader.job_ids[2], {"name": "a"})
            session.flush()
            after_position = reader.page(Sort.NAME, None, 1)
        while after_position is not None:
            after_position = reader.page(Sort.NAME, after_position, 1)
    assert set(reader.seen) == set(reader.job_ids)


def test_a_list_of_constantly_changing_jobs_ends(database, make_spec):
    reader = ListReader(database, make_spec)
    for name in "abcde":
        reader.add(name)
    after_position = reader.page(Sort.UPDATED_AT, None, 1)
    for _ in range(MAX_PAGES):
        if after_position is None:
            break
        reader.apply("edit", len(reader.seen), ("labels", {"page": str(len(reader.seen))}))
        reader.apply("add", "new")
        after_position = reader.page(Sort.UPDATED_AT, after_position, 1)
    assert after_position is None
