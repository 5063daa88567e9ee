"""Output as JSON, output in limited encodings, and suggestions for mistyped ids."""

import typer.main

from ampclient.cli.app import app
from tests.tables import every_row
from tests.waiting import DEADLINE_S

NO_JSON = {"completion", "model card"}
"""Commands that print no data, or a document of their own."""


def every_command(command, words=()):
    below = getattr(command, "commands", {})
    if not below or command.invoke_without_command:
        yield words, command
    for word, subcommand in below.items():
        yield from every_command(subcommand, (*words, word))


COMMANDS = [
    (words, command)
    for words, command in every_command(typer.main.get_command(app))
    if words and " ".join(words) not in NO_JSON
]


@every_row(("words", "command"), COMMANDS)
def test_every_command_has_a_json_option(words, command):
    assert any("--json" in parameter.opts for parameter in command.params)


def test_characters_outside_the_encoding_are_replaced(start_ampctl, server, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    server.add_job("a", name="a – 名")
    process = start_ampctl("list")
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err) == (0, "")
    assert "a - ?" in out


def test_a_mistyped_id_gets_a_suggestion(ampctl, server):
    server.add_job("0a1b2c3d4e5f", state="running")
    expected = "Did you mean 0a1b2c3d4e5f (digits-fp16, running)?"
    assert expected in ampctl("get", "0a1b2c3d4e5e").err
    assert expected in ampctl("cancel", "0a1b2c").err
    server.jobs.clear()
    assert "Run `ampctl list` to see the jobs." in ampctl("watch", "zzz").err
