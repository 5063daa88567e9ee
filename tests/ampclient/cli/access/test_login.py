import io
import json
import stat

import pytest

from ampclient import Client


@pytest.fixture
def unconfigured(configured, monkeypatch):
    """Neither the environment nor a connection file names a server."""
    monkeypatch.delenv("AMPCORE_CONNECTION")
    monkeypatch.chdir(configured.parent)


@pytest.fixture
def set_stdin(monkeypatch):
    """Sets the content of standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.fixture
def login_file(tmp_path):
    return tmp_path / "config" / "ampcore" / "login.json"


def test_login_is_saved_for_later_commands_and_readable_only_by_its_owner(
    ampctl, unconfigured, set_stdin, address, login_file
):
    set_stdin("a-secret-token\n")
    result = ampctl("login", f"{address}/")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Logged in to {address} as anna, member of vision. Saved to ")
    assert stat.S_IMODE(login_file.stat().st_mode) == 0o600
    assert [file.name for file in login_file.parent.iterdir()] == ["login.json"]
    assert ampctl("whoami", "--json").json()["url"] == address
    assert Client().url == address


def test_a_token_that_the_server_refuses_is_not_saved(
    ampctl, unconfigured, set_stdin, address, login_file
):
    set_stdin("wrong\n")
    result = ampctl("login", address)
    assert result.code == 5
    assert "(unauthorized, HTTP 401)" in result.err
    assert not login_file.exists()


def test_login_accepts_a_connection_file_with_its_token(ampctl, configured, address, login_file):
    result = ampctl("--connection", str(configured), "login", "--json")
    assert result.json()["session"]["role"] == "member"
    assert json.loads(login_file.read_text()) == {"url": address, "token": "a-secret-token"}
    assert "come first" not in result.out


def test_login_notes_that_a_connection_file_takes_precedence(
    ampctl, configured, set_stdin, address
):
    set_stdin("a-secret-token\n")
    assert f"Note: commands use the connection file {configured}" in ampctl("login", address).err


@pytest.mark.parametrize("arguments", [["login"], ["login", "host:8000"]])
def test_login_without_a_server_is_refused_before_a_token_is_read(
    ampctl, unconfigured, set_stdin, arguments
):
    set_stdin("a-secret-token\n")
    assert ampctl(*arguments).code in (1, 2)


def test_logout_removes_the_login_file(ampctl, unconfigured, set_stdin, address, login_file):
    set_stdin("a-secret-token\n")
    ampctl("login", address)
    assert ampctl("logout", "--json").json() == {"path": str(login_file), "removed": True}
    assert not login_file.exists()
    assert ampctl("logout").out == "Not logged in.\n"
    assert "run `ampctl login`" in ampctl("list").err


def test_an_error_says_where_address_and_token_come_from(ampctl, configured, monkeypatch, clock):
    monkeypatch.setenv("AMPCORE_TOKEN", "wrong")
    assert "the token comes from AMPCORE_TOKEN." in ampctl("list").err
    configured.write_text(json.dumps({"url": "http://127.0.0.1:1", "token": "t"}))
    assert f"The address comes from the connection file {configured}." in ampctl("list").err


def test_whoami_shows_role_project_and_server(ampctl, address):
    assert ampctl("whoami").out.splitlines() == [
        "token    anna (ab12)",
        "role     member",
        "project  vision",
        f"server   {address}",
    ]
    assert ampctl("whoami", "--json").json()["role"] == "member"
