import pytest


def test_quotas_are_set_one_by_one(ampctl, server):
    assert ampctl("project", "set", "vision", "--max-queued", "5").code == 0
    result = ampctl("project", "set", "vision", "--max-running", "2", "--json")
    assert (result.json()["max_queued"], result.json()["max_running"]) == (5, 2)
    ampctl("project", "set", "vision", "--max-queued", "none")
    assert server.projects["vision"]["max_queued"] is None
    assert server.projects["vision"]["max_running"] == 2


@pytest.mark.parametrize("arguments", [[], ["--max-queued", "many"], ["--max-running", "-1"]])
def test_a_quota_that_is_none_is_wrong_usage(ampctl, server, arguments):
    assert ampctl("project", "set", "vision", *arguments).code == 2
    assert server.projects == {}


def test_projects_are_a_row_each(ampctl):
    ampctl("project", "set", "vision", "--max-queued", "5")
    head, row = ampctl("project", "list").out.splitlines()
    assert head.split()[:2] == ["PROJECT", "QUEUED"]
    assert row.split()[:5] == ["vision", "0", "5", "0", "no"]
    assert [project["name"] for project in ampctl("project", "list", "--json").json()] == ["vision"]
