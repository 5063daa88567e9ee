import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampspec.jobs import State
from server.http.etag import etag_of, matches_if_none_match
from store import leases, workers
from tests.tables import every_row

TAG = 'W/"abc"'


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: an ETag is computed from the response."""
    return sqlite_url


@every_row(
    ("headers", "known"),
    [
        (['W/"abc"'], True),
        (['"abc"'], True),
        (["*"], True),
        ([" * "], True),
        (['"x", W/"abc" ,"y"'], True),
        (['"x"', '"abc"'], True),
        (['"a,b", "abc"'], True),
        ([], False),
        ([""], False),
        (["abc"], False),
        (['"ab"'], False),
        (['"abcd"'], False),
        (['"x", "y"'], False),
        (['"*"'], False),
        (['"x'], False),
    ],
)
def test_if_none_match_matches_weak_and_strong_tags(headers, known):
    assert matches_if_none_match(headers, TAG) is known


@given(st.lists(st.text()), st.integers())
def test_any_if_none_match_header_is_accepted_and_etags_differ(headers, fact):
    assert matches_if_none_match(headers, etag_of(fact)) == (", ".join(headers).strip() == "*")
    assert etag_of(fact) != etag_of(fact, None)


@given(st.lists(st.from_regex(r'(W/)?"[\x21\x23-\x7e]*"', fullmatch=True)), st.integers())
def test_an_etag_among_any_others_matches_and_is_missed_without_it(tags, fact):
    etag = etag_of(fact)
    assert matches_if_none_match([*tags, etag, "x"], etag)
    assert matches_if_none_match([", ".join([etag, *tags])], etag)
    opaque = {tag.removeprefix("W/") for tag in tags}
    assert matches_if_none_match(tags, etag) == (etag.removeprefix("W/") in opaque)


@pytest.fixture
def job_id(api, make_job):
    """A running job, beside a worker."""
    with api.database.write() as session:
        facts = {"hostname": "h", "pid": 7, "slots": 2, "version": "1", "queues": ["default"]}
        workers.register(session, "w", **facts)
    return make_job(State.RUNNING).id


@every_row(
    "path",
    [
        *("jobs", "jobs/{id}", "jobs/{id}/attempts", "jobs/{id}/allocations"),
        *("jobs/{id}/artifacts", "workers"),
        *("workers/w", "models", "data-kinds", "datasets", "losses", "metrics"),
        *("optimizers", "policies"),
    ],
)
def test_an_unchanged_resource_gets_304(api, job_id, path):
    path = f"/api/v1/{path.format(id=job_id)}"
    first = api.client.get(path)
    again = api.client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    for answer in (first, again):
        assert answer.headers["ETag"] == first.headers["ETag"]
        assert answer.headers["Cache-Control"] == "no-cache"
        assert "Authorization" in answer.headers["Vary"]
    other = api.client.get(path, headers={"If-None-Match": '"another"'})
    assert (other.status_code, other.content) == (200, first.content)


@pytest.fixture
def changed(api):
    """Whether the response for a job and its ETag change after `work`."""

    def check(job_id, work):
        path = f"/api/v1/jobs/{job_id}"
        before = api.client.get(path)
        work()
        after = api.client.get(path, headers={"If-None-Match": before.headers["ETag"]})
        assert (after.status_code == 304) == (api.client.get(path).content == before.content)
        return after.status_code == 200

    return check


def test_a_change_of_a_job_changes_its_etag(api, make_job, changed):
    job = f"/api/v1/jobs/{make_job().id}"
    for method, rest, body in [
        ("PATCH", "", {"name": "new"}),
        ("PATCH", "", {"labels": {"a": "b"}}),
        ("PATCH", "", {"priority": 1}),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("POST", "/cancel", None),
        ("POST", "/retry", None),
    ]:
        request = (method, job + rest)
        assert changed(job[-12:], lambda: api.client.request(*request, json=body)), request  # noqa: B023


def test_renewing_a_lease_changes_the_etag_of_its_job(api, make_job, changed):
    job = make_job(State.RUNNING)

    def renew():
        with api.database.write() as session:
            assert leases.renew_lease(session, job.id, 1)

    assert changed(job.id, renew)


def test_the_reason_for_waiting_is_part_of_the_etag(api, make_job, changed):
    job = make_job()
    assert not changed(job.id, lambda: None)
    assert (
        changed(job.id, lambda: make_job(runtime={"priority": 9})) is False
    )  # no worker: as before

    def register_worker():
        with api.database.write() as session:
            facts = {"hostname": "h", "pid": 7, "slots": 2, "version": "1", "queues": ["default"]}
            workers.register(session, "w", **facts)

    assert changed(job.id, register_worker)
    assert changed(job.id, lambda: make_job(runtime={"priority": 9}))


def test_a_missing_job_gets_404_with_any_if_none_match(api):
    answer = api.client.get("/api/v1/jobs/0123456789ab", headers={"If-None-Match": "*"})
    assert answer.status_code == 404
