"""`ampctl` beside people: with a token that a person has made, and `ampctl person` for admins."""

import json

import pytest

from ampclient.cli import main


@pytest.fixture
def ampctl(server, monkeypatch, tmp_path, capsys):
    """Runs a command line in this process, with a token."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AMPCORE_URL", server.url)

    def run(token, *arguments):
        monkeypatch.setenv("AMPCORE_TOKEN", token)
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert not exit_.value.code, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def make_token(browser, user, **fields):
    browser.sign_in(user)
    body = {"name": f"laptop of {user}", "project": "vision", **fields}
    return browser.change("POST", "/tokens", json=body).json()["secret"]


def test_a_person_works_with_a_token_that_it_has_made_in_the_browser(ampctl, browser):
    token = make_token(browser, "ann")
    who = json.loads(ampctl(token, "whoami", "--json"))
    assert (who["token_name"], who["project"]) == ("laptop of ann (ann@example.com)", "vision")


def test_an_admin_lists_people_and_tokens_and_ends_both(ampctl, browser, new_browser):
    admin = make_token(new_browser(), "root", role="admin", personal=False)
    make_token(browser, "ann")
    listed = ampctl(admin, "token", "list")
    assert "ann@example.com" in listed
    assert "nobody" in listed
    people = json.loads(ampctl(admin, "person", "list", "--json"))
    [ann] = [person for person in people if person["name"] == "Ann"]
    [session] = ann["sessions"]
    assert session["id"] in ampctl(admin, "person", "list")
    assert "is signed out" in ampctl(admin, "person", "sign-out", ann["id"], session["id"])
    assert browser.client.get("/api/v1/session").status_code == 401
    ended = json.loads(ampctl(admin, "person", "end-access", ann["id"], "--json"))
    assert ended == {"id": ann["id"]}
    [token] = json.loads(ampctl(admin, "token", "list", "--limit", "1", "--json"))
    assert token["revoked_at"] is not None
