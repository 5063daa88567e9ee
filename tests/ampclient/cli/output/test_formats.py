"""`-o table|wide|name|json|yaml` of every list and of every single thing."""

import json

import pytest
import yaml
from typer.main import get_command

from ampclient.cli.app import app
from tests.tables import every_row

NOUNS = ("job", "study", "dataset", "file", "worker", "token", "project", "audit")


def listing_commands():
    commands = get_command(app).commands
    for noun in NOUNS:
        for verb in ("list", "get"):
            command = commands[noun].commands.get(verb)
            if command is not None:
                yield f"{noun} {verb}", command


@every_row(("name", "command"), list(listing_commands()))
def test_every_list_and_get_takes_the_formats(name, command):
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"-o", "--output", "--json"} <= options
    if name.endswith("list"):
        assert "--limit" in options


def test_a_list_is_printed_in_every_format(ampctl, server):
    server.add_job("a", name="first")
    server.add_job("b", name="second")
    assert ampctl("job", "list", "-o", "name").out == "a\nb\n"
    documents = json.loads(ampctl("job", "list", "-o", "json").out)
    assert documents == ampctl("job", "list", "--json").json()
    assert yaml.safe_load(ampctl("job", "list", "-o", "yaml").out) == documents
    assert ampctl("job", "list", "-o", "table").out == ampctl("job", "list").out
    assert ampctl("job", "list", "-o", "nonsense").code == 2


def test_one_thing_is_printed_in_every_format(ampctl, server, worker):
    server.workers = [worker()]
    assert ampctl("worker", "get", "w1", "-o", "name").out == "w1\n"
    document = ampctl("worker", "get", "w1", "-o", "json").json()
    assert document["hostname"] == "box"
    assert yaml.safe_load(ampctl("worker", "get", "w1", "-o", "yaml").out) == document
    assert "box" in ampctl("worker", "get", "w1").out


def test_an_empty_list_is_empty_in_machine_formats(ampctl, server):
    assert (ampctl("job", "list", "-o", "json").out, ampctl("list", "-o", "name").out) == (
        "[]\n",
        "",
    )


def test_control_characters_are_not_printed_as_yaml(ampctl, server):
    server.add_job("a", name="\x1b[31mred\u202e")
    out = ampctl("job", "get", "a", "-o", "yaml").out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert yaml.safe_load(out)["id"] == "a"


@pytest.mark.parametrize("output", ["table", "wide"])
def test_wide_tables_have_every_column_on_a_narrow_terminal(ampctl, server, monkeypatch, output):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setenv("COLUMNS", "40")
    server.add_job("a", name="a-rather-long-name-of-a-job", state="running")
    out = ampctl("job", "list", "-o", output).out
    assert ("a-rather-long-name-of-a-job" in out) == (output == "wide")
