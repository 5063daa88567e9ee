"""`ampctl cancel-many` and `delete-many` against the real API."""

import pytest

from ampspec.jobs import State
from store.jobs import jobs


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.fixture
def run(ampctl, api, monkeypatch):
    """Run a command line against the real API."""
    monkeypatch.setenv("AMPCORE_URL", api.url)
    monkeypatch.setenv("AMPCORE_TOKEN", api.token)
    return ampctl


def states(database, *ids):
    with database.read() as session:
        rows = [jobs.get(session, job_id) for job_id in ids]
        return [row and row.state for row in rows]


def test_all_jobs_that_match_are_cancelled_and_deleted(run, database, make_job):
    ids = [make_job(labels={"team": "vision"}).id for _ in range(2)]
    other = make_job().id
    result = run("cancel-many", "--label", "team=vision", "--yes")
    assert (result.code, result.out) == (0, "2 jobs cancelled, or about to stop.\n")
    assert states(database, *ids, other) == ["cancelled", "cancelled", "queued"]
    result = run("delete-many", "--state", "cancelled", "--yes", "--json")
    assert sorted(result.json()) == sorted(ids)
    assert states(database, *ids, other) == [None, None, "queued"]
    assert "DELETED FOR GOOD" in run("job", "list", "--trash").out
    assert run("job", "restore", ids[0]).out == f"{ids[0]} restored\n"
    assert run("job", "delete", ids[1], "--permanent", "--json").json() == {"deleted": ids[1]}
    assert run("job", "restore", ids[1]).code == 4
    result = run("delete-many", "--state", "cancelled", "--yes", "--permanent")
    assert result.out == "1 job deleted.\n"
    assert run("job", "list", "--trash", "--json").json() == []


def test_without_a_yes_nothing_is_changed(run, database, make_job, monkeypatch):
    job_id = make_job(State.SUCCEEDED).id
    monkeypatch.setattr(
        "typer.confirm", lambda *_, abort, err: (_ for _ in ()).throw(SystemExit(1))
    )
    assert run("delete-many", "--state", "succeeded").code == 1
    assert states(database, job_id) == ["succeeded"]


def test_one_job_is_one_job(run, make_job):
    make_job()
    assert run("cancel-many", "--state", "queued", "-y").out == (
        "1 job cancelled, or about to stop.\n"
    )


@pytest.mark.parametrize("command", ["cancel-many", "delete-many"])
def test_an_empty_filter_is_refused(run, database, make_job, command):
    ids = [make_job(State.CANCELLED).id, make_job().id]
    result = run(command, "--q", "", "--state", "queued", "--state", "cancelled", "--yes")
    assert result.code == 2
    assert "an empty filter: q" in result.err
    assert states(database, *ids) == ["cancelled", "queued"]


@pytest.mark.parametrize("command", ["cancel-many", "delete-many"])
def test_a_filter_is_needed(run, command):
    result = run(command, "--yes")
    assert result.code == 2
    assert "no filter" in result.err
