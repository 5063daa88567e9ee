"""`ampctl NOUN VERB`, the short forms, and the forms of before, which are hidden."""

import pytest
from typer.main import get_command

from ampclient.cli.app import app
from tests.tables import every_row

BEFORE = {
    **{
        (verb,): ("job", verb)
        for verb in (
            "submit", "validate", "list", "get", "watch", "compare", "logs", "steps", "evaluations",
            "ranges", "export", "events", "attempts", "artifacts", "download", "profile", "cancel",
            "pause", "resume", "retry", "clone", "extend", "explain", "edit", "delete",
            "cancel-many", "delete-many",
        )
    },
    **{
        ("lab", verb): ("study", verb)
        for verb in ("precision", "capacity", "bisect", "search", "list", "get", "cancel", "delete")
    },
    ("dataset", "push"): ("dataset", "upload"),
    ("dataset", "pull"): ("dataset", "download"),
    ("dataset", "show"): ("dataset", "get"),
    ("dataset", "spec"): ("dataset", "propose"),
    ("workers", "drain"): ("worker", "drain"),
}  # fmt: skip
SHORT = {"submit", "validate", "list", "get", "watch", "compare", "logs", "cancel"}


def command_at(words):
    command = get_command(app)
    hidden = False
    for word in words:
        command = command.commands[word]
        hidden = hidden or command.hidden
    return command, hidden


@every_row(("old", "new"), list(BEFORE.items()))
def test_a_form_of_before_has_the_options_of_the_new_one(old, new):
    (old_command, is_hidden), (new_command, new_is_hidden) = command_at(old), command_at(new)
    assert [p.opts for p in old_command.params] == [p.opts for p in new_command.params]
    assert old_command.callback.__wrapped__ is new_command.callback.__wrapped__ or (
        old_command.help == new_command.help
    )
    assert (is_hidden, new_is_hidden) == (old[0] not in SHORT, False)


def test_the_help_lists_nouns_the_short_forms_the_fleet_and_the_login():
    listed = {name for name, command in get_command(app).commands.items() if not command.hidden}
    nouns = {
        "job",
        "notification",
        "study",
        "dataset",
        "file",
        "worker",
        "token",
        "person",
        "project",
        "retention",
        "audit",
        "model",
        "run",
    }
    assert listed == nouns | SHORT | {"top", "login", "logout", "whoami", "version", "completion"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["workers"], ["worker", "list"]),
        (["workers", "--all", "--json"], ["worker", "list", "--all", "-o", "json"]),
        (["audit", "--limit", "1"], ["audit", "list", "--limit", "1"]),
        (["steps", "a", "--json"], ["job", "steps", "a", "--json"]),
        (["list", "--json"], ["job", "list", "-o", "json"]),
    ],
)
def test_both_forms_print_the_same(ampctl, server, worker, old, new):
    server.workers = [worker(), worker(id="w2", state="lost")]
    server.add_job("a", state="succeeded")
    server.add_steps("a", 3)
    entry = {"at": "2030-01-02T03:04:05Z", "action": "job.cancel", "target": "a", "data": None}
    who = dict.fromkeys(("project", "token_id", "token_name", "address", "request_id"))
    server.audit = [{"id": number, **entry, **who} for number in (2, 1)]
    first, second = ampctl(*old), ampctl(*new)
    assert first == second
    assert first.code == 0
    assert first.out
