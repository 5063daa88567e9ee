import pytest


def test_setting_one_quota_keeps_the_other(ampctl, server):
    assert ampctl("project", "set", "vision", "--max-queued", "5").code == 0
    result = ampctl("project", "set", "vision", "--max-running", "2", "--json")
    assert (result.json()["max_queued"], result.json()["max_running"]) == (5, 2)
    ampctl("project", "set", "vision", "--max-queued", "none")
    assert server.projects["vision"]["max_queued"] is None
    assert server.projects["vision"]["max_running"] == 2
    for text, size_bytes in {"10GB": 10**10, "1.5GiB": 3 * 2**29, "7": 7, "none": None}.items():
        result = ampctl("project", "set", "vision", "--max-artifact-bytes", text, "--json")
        assert result.json()["max_artifact_bytes"] == size_bytes


def test_a_project_that_is_created_by_a_typo_is_named_with_the_others(ampctl):
    first = ampctl("project", "set", "vision", "--max-queued", "5")
    assert first.err == "Created the project vision.\n"
    assert ampctl("project", "set", "vision", "--max-queued", "4").err == ""
    created = ampctl("project", "set", "visio", "--max-queued", "5", "--json")
    assert created.json()["name"] == "visio"
    assert created.err == (
        "Created the project visio. Did you mean vision? The projects before: vision.\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [[], ["--max-queued", "many"], ["--max-running", "-1"], ["--max-artifact-bytes", "10G"]],
)
def test_a_missing_or_invalid_quota_is_wrong_usage(ampctl, server, arguments):
    assert ampctl("project", "set", "vision", *arguments).code == 2
    assert server.projects == {}


def test_each_project_is_a_row(ampctl):
    ampctl("project", "set", "vision", "--max-queued", "5")
    head, row = ampctl("project", "list").out.splitlines()
    assert head.split()[:2] == ["PROJECT", "QUEUED"]
    assert row.split()[:5] == ["vision", "0", "5", "0", "no"]
    assert [project["name"] for project in ampctl("project", "list", "--json").json()] == ["vision"]
