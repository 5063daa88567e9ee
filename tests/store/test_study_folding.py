"""A list of jobs with one row per study: filters, orders and pages stay right."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, insert, text, update

from ampspec.jobs import State
from store import studies
from store.jobs.jobs import Origin, create
from store.listing import search
from store.listing.job_order import Sort
from store.listing.search_filters import Search
from store.tables import Job, Study, StudyJob
from tests.databases import ON_SQLITE


@pytest.fixture
def add_study(database, make_spec):
    """Add a study with a job in each of these states; returns its id and those of its jobs."""

    def make(*states, name="study"):
        with database.write() as session:
            study = studies.create(
                session,
                project="default",
                kind="precision",
                name=name,
                spec={},
                options={},
                policies=[],
                facts={},
            )
            keys = [f"job {number}" for number in range(len(states))]
            studies.add_jobs(session, study.id, {key: {} for key in keys})
            ids = []
            for key, state in zip(keys, states, strict=True):
                job = create(session, make_spec(name=f"{name} {key}"), Origin("default"))
                session.execute(update(Job).where(Job.id == job.id).values(state=state))
                studies.set_job(session, study.id, key, job.id)
                ids.append(job.id)
            return study.id, ids

    return make


@pytest.fixture
def add_job(database, make_spec):
    def make(state=State.QUEUED):
        with database.write() as session:
            job = create(session, make_spec(name="single"), Origin("default"))
            session.execute(update(Job).where(Job.id == job.id).values(state=state))
            return job.id

    return make


def listed(database, sort=Sort.NEWEST, limit=100, **filters):
    """The ids of the rows over all pages, and the study of each."""
    query, position, rows = Search(folds_studies=True, **filters), None, []
    while True:
        with database.read() as session:
            page = search.page(session, query, sort=sort, after_position=position, limit=limit)
            ids = [job.id for job in page.jobs]
            groups = search.folded_studies(session, query, ids)
            rows += [(job_id, groups.get(job_id)) for job_id in ids]
        position = page.next
        if position is None:
            return rows


def test_the_jobs_of_a_study_are_one_row_with_their_states(database, add_study, add_job):
    single = add_job()
    study, jobs = add_study(State.SUCCEEDED, State.RUNNING, State.QUEUED, State.QUEUED)
    rows = dict(listed(database))
    assert rows.keys() == {single, jobs[0]}
    assert rows[single] is None
    group = rows[jobs[0]]
    assert (group.id, group.kind, group.state, group.jobs) == (study, "precision", "running", 4)
    assert group.states == {"succeeded": 1, "running": 1, "queued": 2}


def test_the_row_of_a_study_has_its_progress_and_its_answer(database, add_study):
    study, _ = add_study(State.SUCCEEDED, State.FAILED, State.RUNNING)
    for key in ("job 0", "job 1"):
        with database.write() as session:
            studies.set_result(session, study, key, {"state": "succeeded"})
    [(_, group)] = listed(database, states=(State.RUNNING,))
    assert (group.jobs, group.jobs_planned, group.jobs_ended, group.summary) == (1, 3, 2, None)
    with database.write() as session:
        row = studies.get(session, study)
        answer = {"summary": "Use bfloat16.", "policies": []}
        studies.set_state(session, row, studies.SUCCEEDED, answer=answer)
    [(_, group)] = listed(database, states=(State.RUNNING,))
    assert group.summary == "Use bfloat16."


def test_the_studies_of_a_page_are_read_by_indexes(database, add_study):
    """Fails if all studies are counted to find those of a page."""
    _, jobs = add_study(State.SUCCEEDED, State.RUNNING)
    with database.write() as session:
        rows = [
            {"study_id": str(n), "key": "k", "number": 0, "changes": {}, "job_id": f"job {n}"}
            for n in range(5_000)
        ]
        facts = {"project": "default", "kind": "search", "spec": {}, "options": {}, "policies": []}
        session.execute(
            insert(Study),
            [{**facts, "id": row["study_id"], "name": "x", "facts": {}} for row in rows],
        )
        session.execute(insert(StudyJob), rows)
    with database.write() as session:
        session.execute(text("ANALYZE"))
    with database.read() as session:
        query = Search(folds_studies=True)
        plans = explained(session, lambda: search.folded_studies(session, query, jobs[:1]))
    assert sum("study_jobs" in plan for plan in plans) == 3
    for plan in plans:
        assert not re.search("(Seq Scan on|SCAN) (studies|study_jobs)", plan)


def explained(session, work):
    """The query plans of the statements of `work`."""
    statements = []

    def record(_connection, _cursor, statement, parameters, _context, _many):
        statements.append((statement, parameters))

    engine = session.get_bind()
    event.listen(engine, "before_cursor_execute", record)
    work()
    event.remove(engine, "before_cursor_execute", record)
    prefix = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    connection = session.connection()
    return [
        "\n".join(str(row[-1]) for row in connection.exec_driver_sql(prefix + sql, values))
        for sql, values in statements
    ]


def test_a_study_is_listed_where_any_of_its_jobs_matches(database, add_study, add_job):
    add_job()
    study, jobs = add_study(State.SUCCEEDED, State.FAILED, State.FAILED)
    [(job_id, group)] = listed(database, states=(State.FAILED,))
    assert (job_id, group.id, group.states) == (jobs[1], study, {"failed": 2})
    assert listed(database, states=(State.CANCELLED,)) == []


def test_the_jobs_of_one_study_can_be_listed(database, add_study, add_job):
    add_job()
    add_study(State.QUEUED)
    study, jobs = add_study(State.SUCCEEDED, State.RUNNING)
    with database.read() as session:
        page = search.page(
            session, Search(study=study), sort=Sort.NAME, after_position=None, limit=10
        )
    assert [job.id for job in page.jobs] == jobs


def test_the_jobs_of_a_deleted_study_are_rows_each(database, add_study):
    study, jobs = add_study(State.SUCCEEDED, State.SUCCEEDED)
    with database.write() as session:
        studies.set_state(session, studies.get(session, study), studies.SUCCEEDED)
    with database.write() as session:
        assert studies.delete_study(session, study)
    assert {job_id for job_id, _ in listed(database)} == set(jobs)


STATES = st.sampled_from([State.QUEUED, State.RUNNING, State.SUCCEEDED, State.FAILED])


@ON_SQLITE
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.one_of(STATES, st.lists(STATES, min_size=1, max_size=4)), max_size=5),
    st.sets(STATES),
    st.sampled_from([Sort.NEWEST, Sort.CREATED_AT, Sort.NAME, Sort.HIGHEST_PRIORITY]),
    st.integers(1, 3),
)
def test_pages_of_any_size_have_each_matching_job_or_study_once(  # noqa: PLR0917
    database, add_study, add_job, parts, states, sort, limit
):
    with database.write() as session:
        session.execute(update(Job).values(project="default", state=State.CANCELLED))
    states = states or set(State) - {State.CANCELLED}
    expected = {}
    for part in parts:
        if isinstance(part, list):
            study, _ = add_study(*part)
            if count := sum(state in states for state in part):
                expected[study] = count
        elif part in states:
            expected[add_job(part)] = 1
        else:
            add_job(part)
    rows = listed(database, sort, limit, states=tuple(states))
    counts = [(group.id, group.jobs) if group else (job_id, 1) for job_id, group in rows]
    assert len(counts) == len(expected)
    assert dict(counts) == expected
