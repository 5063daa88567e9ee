"""`ampctl retention` against the real API."""

import pytest

from ampclient._display.formats import UNKNOWN as NONE
from ampspec.jobs import State


@pytest.fixture
def database_url(sqlite_url):
    """SQLite alone: the store has its own tests on both databases."""
    return sqlite_url


@pytest.fixture
def run(api, ampctl, monkeypatch):
    monkeypatch.setenv("AMPCORE_URL", api.url)
    monkeypatch.setenv("AMPCORE_TOKEN", api.token)
    return lambda *words: ampctl("retention", *words)


def test_rules_are_set_shown_previewed_and_removed(run, make_job):
    make_job(State.SUCCEEDED)
    assert "no retention rules" in run("show", "default").out
    run("set", "default", "jobs", "--after-days", "90", "--except-label", "keep")
    run("set", "default", "checkpoints", "--after-days", "7", "--keep", "0", "--state", "failed")
    run("set", "default", "jobs", "--after-days", "30", "--except-label", "keep")
    _, *rows = run("show", "default").out.splitlines()
    assert [row.split()[1:] for row in rows] == [
        ["checkpoints", "7", "d", "failed", NONE, NONE, "0"],
        ["jobs", "30", "d", "all", NONE, "keep", NONE],
    ]
    preview = run("preview", "default")
    assert preview.out.splitlines()[-1].split()[-3:] == ["0", "B", NONE]
    assert [item["count"] for item in run("preview", "default", "--json").json()["items"]] == [0, 0]
    assert run("remove", "default", "1").code == 2
    rule_ids = [row.split()[0] for row in rows]
    assert len(run("remove", "default", rule_ids[0], "--json").json()["rules"]) == 1
    again = run("remove", "default", rule_ids[0])
    assert (again.code, f"its rules are {rule_ids[1]} " in " ".join(again.err.split())) == (2, True)
    assert [row.split() for row in run("show", "default").out.splitlines()[1:]] == [rows[1].split()]
    assert "no retention rules" in run("remove", "default").out
    assert run("set", "default", "jobs", "--after-days", "1", "--label", "=x").code == 2
    result = run("set", "default", "jobs", "--after-days", "0")
    assert (result.code, "--after-days" in result.err) == (2, True)
    unknown = run("preview", "visio")
    assert (unknown.code, "There is no project 'visio'" in unknown.err) == (4, True)
