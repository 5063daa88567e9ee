import pytest

ENTRY = {
    "at": "2030-01-02T03:04:05Z",
    "target": "0a1b2c",
    "project": "vision",
    "token_id": "ab12",
    "token_name": "anna",
    "address": "127.0.0.1",
    "request_id": "4f1c",
    "data": {"wait": True},
}


@pytest.fixture(autouse=True)
def entries(server):
    actions = ["job.cancel", "job.create", "token.create"]
    server.audit = [{**ENTRY, "id": 3 - n, "action": action} for n, action in enumerate(actions)]


def test_each_audit_entry_is_a_row(ampctl):
    lines = ampctl("audit").out.splitlines()
    assert lines[0].split() == ["TIME", "BY", "ACTION", "TARGET", "PROJECT", "FROM", "DATA"]
    assert lines[1].split()[2:] == [
        "anna", "job.cancel", "0a1b2c", "vision", "127.0.0.1", "wait=true"
    ]  # fmt: skip
    assert len(lines) == 4


def test_the_audit_can_be_limited_and_filtered(ampctl, server):
    result = ampctl("audit", "--limit", "2", "--json")
    assert [entry["id"] for entry in result.json()] == [3, 2]
    assert result.err == "Showing the newest 2; use --limit N for more.\n"
    assert len(ampctl("audit", "--action", "job.create").out.splitlines()) == 2
    assert ampctl("audit", "--action", "nothing").err == "No matching audit entries.\n"
