from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import event, insert, select, text, update

from ampspec.jobs import State
from store import job_metrics
from store.access import projects
from store.clock import from_now, now
from store.job_metrics import MetricFilter
from store.jobs.jobs import Origin, create
from store.listing import search
from store.listing.job_order import MetricSort, Sort
from store.listing.search_filters import Search, matching
from store.tables import Job, JobMetric
from tests.tables import every_row


@pytest.fixture
def add(database, make_spec):
    """Add jobs to the database; returns their ids."""

    def make(*specs, project="default"):
        with database.write() as session:
            projects.ensure(session, project)
            return [create(session, make_spec(**spec), Origin(project)).id for spec in specs]

    return make


@pytest.fixture
def find(database):
    """The ids of all jobs that a search finds."""

    def ids(**asked):
        with database.read() as session:
            page = search.page(
                session, Search(**asked), sort=Sort.NAME, after_position=None, limit=100
            )
            return [job.id for job in page.jobs]

    return ids


def pages(database, sort, limit, between=lambda: None):
    """The jobs of all pages in order; `between` is called after each page but the last."""
    after_position, seen = None, []
    while True:
        with database.read() as session:
            page = search.page(
                session, Search(), sort=sort, after_position=after_position, limit=limit
            )
        seen += page.jobs
        after_position = page.next
        if after_position is None:
            return seen
        between()


@pytest.fixture
def ids_of_equal_jobs(add):
    """The ids of eleven jobs with three names and two priorities."""
    return add(*({"name": f"job {n % 3}", "runtime": {"priority": n % 2}} for n in range(11)))


@every_row("sort", Sort)
def test_pages_list_every_job_once_in_order_even_with_equal_values(
    database, ids_of_equal_jobs, sort
):
    ids = ids_of_equal_jobs
    with database.write() as session:  # jobs of one transaction have one time
        session.execute(update(Job).where(Job.id.in_(ids[:5])).values(created_at=now()))
        old = now() if "created" in sort else from_now(-3600)  # long before the first page
        session.execute(update(Job).where(Job.id.in_(ids)).values(updated_at=old, changed_at=old))
    seen = pages(database, sort, 2)
    assert sorted(job.id for job in seen) == sorted(ids)
    keys = [(getattr(job, sort.field), job.id) for job in seen]
    assert all((a > b) if sort.descends else (a < b) for a, b in pairwise(keys))


def test_jobs_submitted_between_two_pages_do_not_shift_the_list(database, add):
    ids = add(*({} for _ in range(6)))
    seen = pages(database, Sort.NEWEST, 2, between=lambda: add({}, {}))
    assert [job.id for job in seen if job.id in ids] == [job.id for job in seen]
    assert sorted(job.id for job in seen) == sorted(ids)


def test_deleting_a_job_between_two_pages_skips_no_other_job(database, add):
    ids = add(*({"name": f"job {n}"} for n in range(4)))

    def delete_the_second():
        with database.write() as session:
            session.execute(text("DELETE FROM jobs WHERE id = :id"), {"id": ids[1]})

    assert [job.name for job in pages(database, Sort.NAME, 2, delete_the_second)] == [
        f"job {n}" for n in range(4)
    ]


@pytest.fixture
def ids_of_labelled_jobs(add):
    """The ids of three jobs with labels."""
    return add(
        {"name": "a", "labels": {"team": "vision"}},
        {"name": "b", "labels": {"team": "speech"}},
        {"name": "c", "labels": {"a.\"b'$[0]\\": "=%_", "größe": "🎓"}},
    )


@every_row(
    ("label", "numbers"),
    [
        (("team", None), [0, 1]),
        (("team", "vision"), [0]),
        (("team", "Vision"), []),
        (("tea", None), []),
        (("a.\"b'$[0]\\", "=%_"), [2]),
        (("größe", "🎓"), [2]),
    ],
)
def test_labels_match_exactly(ids_of_labelled_jobs, find, label, numbers):
    assert find(labels=(label,)) == [ids_of_labelled_jobs[n] for n in numbers]


def test_a_job_must_have_every_requested_label(add, find):
    both, _ = add({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": "1"}})
    assert find(labels=(("a", "1"), ("b", None))) == [both]


@pytest.fixture
def ids_of_named_jobs(add):
    """The ids of two jobs whose names have the wildcards of SQL."""
    return add({"name": "digits of 100%"}, {"name": "a_b\\c/d"})


@every_row(
    ("q", "numbers"),
    [("DIGITS", [0]), ("100%", [0]), ("%", [0]), ("_", [1]), ("\\", [1]), ("/", [1]), ("s_f", [])],
)
def test_the_search_matches_any_part_of_a_name_without_wildcards(
    ids_of_named_jobs, find, q, numbers
):
    assert find(q=q) == [ids_of_named_jobs[n] for n in numbers]


@pytest.fixture
def ids_of_other_names(add):
    """The ids of four jobs whose names have characters outside of ASCII, or repeat one."""
    return add(*({"name": name} for name in ("Größe", "🎓 x", "a  b", "aaaa")))


@every_row(
    ("q", "numbers"),
    [
        ("Größe", [0]),
        ("öß", [0]),
        ("ö", [0]),
        ("🎓", [1]),
        ("🎓 X", [1]),
        ("  ", [2]),
        ("aaa", [3]),
        ("aaaaa", []),
        ("A", [2, 3]),
        ("zz", []),
    ],
)
def test_the_search_matches_parts_of_any_length_and_script(ids_of_other_names, find, q, numbers):
    """Fails if the parts of names in the index differ from those of the text."""
    by_name, ids = {ids_of_other_names[n] for n in numbers}, set(find(q=q))
    assert by_name <= ids
    assert all(job_id.startswith(q.lower()) for job_id in ids - by_name)


@pytest.fixture
def old_and_new_jobs(add, monkeypatch):
    """Three old jobs and six new ones; of the order of a list only two jobs are read first."""
    monkeypatch.setattr("store.listing.search.WINDOW", 2)
    old = {
        "precision": {"policy": "mixed_float16"},
        "model": {"kind": "cnn"},
        "labels": {"team": "old"},
        "runtime": {"priority": 9},
    }
    add(*({"name": f"old job {n}", **old} for n in range(3)))
    add(*({"name": f"a job {n}", "labels": {"team": "new"}} for n in range(6)))


@every_row("sort", Sort)
@every_row(
    ("asked", "number"),
    [
        ({"labels": (("team", "old"),)}, 3),
        ({"labels": (("team", "old"),), "project": "default"}, 3),
        ({"q": "old"}, 3),
        ({"policy": "mixed_float16"}, 3),
        ({"model": "cnn", "q": "job"}, 3),
        ({"labels": (("team", None),)}, 9),
        ({"labels": (("team", "none"),)}, 0),
    ],
)
@pytest.mark.usefixtures("old_and_new_jobs")
def test_a_filter_finds_the_same_jobs_wherever_they_are_in_the_order(database, sort, asked, number):
    """Fails if jobs behind the window that is read in order are left out."""
    search_filters = Search(**asked)
    job_ids, position = [], None
    with database.read() as session:
        while True:
            page = search.page(session, search_filters, sort=sort, after_position=position, limit=2)
            job_ids += [job.id for job in page.jobs]
            position = page.next
            if position is None:
                break
        everything = session.scalars(select(Job.id).where(*matching(search_filters))).all()
    assert set(job_ids) == set(everything)
    assert len(everything) == number


def test_the_search_matches_only_the_beginning_of_an_id(add, find):
    [job_id] = add({"name": "no hexadecimal"})
    assert find(q=job_id[:5].upper()) == [job_id]
    assert find(q=job_id[2:9]) == []


def test_jobs_are_filtered_by_project_policy_model_state_and_time(database, add, find):
    [first] = add({"precision": {"policy": "mixed_float16"}})
    [second] = add({"model": {"kind": "cnn"}}, project="other")
    with database.write() as session:
        session.execute(update(Job).where(Job.id == second).values(state=State.FAILED))
        created_at = session.get(Job, first).created_at
        session.execute(
            update(Job).where(Job.id == second).values(created_at=created_at + timedelta(hours=1))
        )
    assert find(project="other") == find(model="cnn") == find(states=(State.FAILED,)) == [second]
    assert find(project="default") == find(policy="mixed_float16") == [first]
    with database.write() as session:
        session.execute(update(Job).where(Job.id == second).values(resolved_policy="bfloat16"))
    assert find(policy="bfloat16") == find(policy="float32") == [second]
    assert find(states=(State.FAILED, State.PAUSED), project="default") == []
    assert find(created_after=created_at) == [second]
    assert find(created_before=created_at + timedelta(hours=1)) == [first]


@pytest.fixture
def many_jobs(database, make_spec):
    """10,000 queued jobs with a metric, and statistics of the tables."""
    spec = make_spec().to_json()
    facts = {"project": "default", "name": "x", "policy": "float32", "model": "mlp"}
    facts |= {"labels": {}, "spec": spec, "queue": "default"}
    with database.write() as session:
        session.execute(insert(Job), [facts for _ in range(10_000)])
        ids = session.scalars(select(Job.id)).all()
        metrics = [{"job_id": id_, "name": "val_loss", "value": n} for n, id_ in enumerate(ids)]
        session.execute(insert(JobMetric), metrics)
    with database.write() as session:
        session.execute(text("ANALYZE"))


@every_row("filters", [Search(), Search(project="default")])
@every_row("sort", [sort for sort in Sort if sort.field != "updated_at"])
def test_a_page_in_any_order_is_read_from_an_index(database, many_jobs, filters, sort):
    with database.read() as session:
        position = search.page(session, filters, sort=sort, after_position=None, limit=50).next
        plan = explain(
            session,
            lambda: search.page(session, filters, sort=sort, after_position=position, limit=51),
        )
    assert "ix_jobs" in plan
    assert f"{sort.field}_id" in plan
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan
    assert "Seq Scan" not in plan


@every_row("filters", [Search(), Search(project="default")])
def test_a_page_of_a_time_range_is_read_from_an_index(database, many_jobs, filters):
    day = timedelta(days=1)
    with database.read() as session:
        moment = session.scalar(select(now()))
        dated = replace(filters, created_after=moment - day, created_before=moment + day)
        plan = explain(
            session,
            lambda: search.page(session, dated, sort=Sort.NEWEST, after_position=None, limit=51),
        )
    assert "created_at_id" in plan
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan
    assert "Seq Scan" not in plan


@every_row("filters", [Search(), Search(project="default")])
@every_row("sort", [Sort.UPDATED_AT, Sort.LAST_UPDATED])
def test_a_page_sorted_by_the_last_update_reads_active_jobs_and_an_index(
    database, many_jobs, filters, sort
):
    with database.read() as session:
        position = search.page(session, filters, sort=sort, after_position=None, limit=50).next
        plan = explain(
            session,
            lambda: search.page(session, filters, sort=sort, after_position=position, limit=51),
        )
    assert "changed_at_id" in plan
    assert "Seq Scan" not in plan


@pytest.fixture
def measured(database, add):
    """Three jobs with the metrics 2, 1 and 2, then two without."""
    ids = add(*({"name": f"job {n}"} for n in range(5)))
    with database.write() as session:
        for job_id, value in zip(ids, (2.0, 1.0, 2.0), strict=False):
            job_metrics.replace(session, job_id, {"val_loss": value, "val_auc": 0.5})
    return ids


@every_row("limit", [1, 2, 3, 4, 5])
@every_row("descends", [False, True])
def test_a_list_is_sorted_by_a_metric_and_jobs_without_it_are_last(
    database, measured, limit, descends
):
    with database.write() as session:  # long before the first page
        session.execute(update(JobMetric).values(updated_at=from_now(-3600)))
    listed = pages(database, MetricSort("val_loss", descends), limit)
    equal = sorted([measured[0], measured[2]], reverse=descends)
    with_metric = [*equal, measured[1]] if descends else [measured[1], *equal]
    assert [job.id for job in listed[:3]] == with_metric
    assert {job.id for job in listed[3:]} == set(measured[3:])
    newest_first = sorted(listed[3:], key=lambda job: (job.created_at, job.id), reverse=True)
    assert [job.id for job in listed[3:]] == [job.id for job in newest_first]


def test_a_job_whose_metric_improves_while_pages_are_read_is_listed(database, measured):
    def improve():
        with database.write() as session:
            job_metrics.replace(session, measured[3], {"val_loss": 0.5})

    ids = {job.id for job in pages(database, MetricSort("val_loss"), 1, between=improve)}
    assert ids == set(measured)


@every_row(
    ("comparison", "value", "numbers"),
    [(">=", 2.0, [0, 2]), (">", 2.0, []), ("<", 2.0, [1]), ("<=", 1.0, [1]), ("=", 1.0, [1])],
)
def test_jobs_are_filtered_by_a_metric(find, measured, comparison, value, numbers):
    metric_filter = MetricFilter("val_loss", comparison, value)
    assert find(metrics=(metric_filter,)) == [measured[n] for n in numbers]


def test_a_job_must_meet_every_condition_on_metrics(find, measured):
    loss, auc = MetricFilter("val_loss", "<", 2.0), MetricFilter("val_auc", ">", 0.25)
    assert find(metrics=(loss, auc)) == [measured[1]]
    assert find(metrics=(loss, MetricFilter("val_mae", ">", 0.0))) == []


def test_a_list_can_be_sorted_by_one_metric_and_filtered_by_the_same_and_another(
    database, measured
):
    filters = Search(metrics=tuple(MetricFilter(n, "<", 2.0) for n in ("val_loss", "val_auc")))
    sort = MetricSort("val_loss")
    with database.read() as session:
        page = search.page(session, filters, sort=sort, after_position=None, limit=9)
    assert [job.id for job in page.jobs] == [measured[1]]


@every_row("descends", [False, True])
def test_a_page_sorted_by_a_metric_is_read_from_an_index(database, many_jobs, descends):
    sort = MetricSort("val_loss", descends)
    with database.read() as session:
        position = search.page(session, Search(), sort=sort, after_position=None, limit=50).next
        plan = explain(
            session,
            lambda: search.page(session, Search(), sort=sort, after_position=position, limit=51),
        )
    assert "ix_job_metrics_name_value_job_id" in plan
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan
    assert "Seq Scan" not in plan


def explain(session, work):
    """The query plan of the first statement of `work` that finds the ids of a page."""
    statements = []

    def record(_connection, _cursor, statement, parameters, _context, _many):
        if "sort_key" in statement:
            statements.append((statement, parameters))

    engine = session.get_bind()
    event.listen(engine, "before_cursor_execute", record)
    work()
    event.remove(engine, "before_cursor_execute", record)
    statement, parameters = statements[0]
    prefix = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    rows = session.connection().exec_driver_sql(prefix + statement, parameters)
    return "\n".join(str(row[-1]) for row in rows)
