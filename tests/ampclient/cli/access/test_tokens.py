import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.tables import every_row


def test_create_prints_only_the_secret_to_standard_output(ampctl, server):
    result = ampctl("token", "create", "ci", "--role", "viewer", "--project", "vision")
    assert (result.code, result.out) == (0, "amp_secret\n")
    assert "Token 0000: viewer of vision." in result.err
    assert "not shown again" in result.err.replace("\n", " ")


def test_an_unknown_role_is_wrong_usage(ampctl, server):
    result = ampctl("token", "create", "ci", "--role", "boss")
    assert (result.code, server.tokens) == (2, [])
    assert "Invalid value for '--role': 'boss' is not one of 'admin'" in result.err


def test_create_as_json_prints_the_token_with_its_secret(ampctl):
    document = ampctl("token", "create", "ci", "--json").json()
    assert (document["secret"], document["role"]) == ("amp_secret", "member")


@every_row("option", ["--scope=jobs:run-code", "--right=code"])
def test_a_token_can_have_the_scope_to_run_code(ampctl, server, option):
    result = ampctl("token", "create", "ci", option)
    assert "member with the scope jobs:run-code of vision" in result.err.replace("\n", " ")
    assert server.tokens[-1]["scopes"] == ["jobs:run-code"]
    assert "jobs:run-code" in ampctl("token", "list").out


@pytest.mark.parametrize(("text", "hours"), [("30d", 30 * 24), ("12h", 12), ("90m", 1.5)])
def test_a_token_can_expire_after_a_duration(ampctl, server, text, hours):
    before = datetime.now(UTC)
    ampctl("token", "create", "ci", "--expires", text)
    expires_at = datetime.fromisoformat(server.tokens[0]["expires_at"])
    assert before <= expires_at - timedelta(hours=hours) <= datetime.now(UTC)


def test_a_token_can_expire_on_a_date(ampctl, server):
    ampctl("token", "create", "ci", "--expires", "2031-12-31")
    assert datetime.fromisoformat(server.tokens[0]["expires_at"]).astimezone().year == 2031


@every_row("text", ["soon", "0d", "9999999d", "12"])
def test_an_invalid_expiry_is_wrong_usage(ampctl, server, text):
    result = ampctl("token", "create", "ci", "--expires", text)
    assert result.code == 2
    assert text in result.err
    assert server.tokens == []


def test_list_shows_which_tokens_are_valid_expired_or_revoked(ampctl, server):
    for expires_at, revoked_at in (
        (None, None),
        ("2001-01-01T00:00:00Z", None),
        (None, "2030-01-02T03:04:05Z"),
    ):
        ampctl("token", "create", "anna")
        server.tokens[-1] |= {"expires_at": expires_at, "revoked_at": revoked_at}
    rows = [line.split() for line in ampctl("token", "list").out.splitlines()]
    assert rows[0] == ["ID", "NAME", "ROLE", "SCOPES", "PROJECT", "STATE", "CREATED", "BY", "OWNER"]
    assert [row[4] for row in rows[1:]] == ["valid", "expired", "revoked"]
    assert ampctl("token", "list", "--json").json() == server.tokens


def test_rotate_prints_only_the_new_secret_to_standard_output(ampctl, server):
    ampctl("token", "create", "ci")
    result = ampctl("token", "rotate", "0000", "--grace", "60")
    assert result.out == "amp_rotated\n"
    assert json.loads(server.requests[-1].content) == {"grace_s": 60.0}
    assert ampctl("token", "rotate", "0000", "--json").json()["secret"] == "amp_rotated"


def test_revoke_confirms_and_fails_for_an_unknown_token(ampctl, server):
    ampctl("token", "create", "ci")
    assert ampctl("token", "revoke", "0000").out == "0000 revoked\n"
    assert server.tokens[0]["revoked_at"] is not None
    assert ampctl("token", "revoke", "beef").code == 4
