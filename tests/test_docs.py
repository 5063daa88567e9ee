"""Files, tests, settings, commands, options, routes and metrics that the documents name exist."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from ampclient.cli.app import app as ampctl
from ampclient.cli.jobs.commands import SHORT
from server.app import create_app
from server.cli.app import app as ampserver
from server.http.access.session_cookie import COOKIE, PERSON_COOKIE
from server.settings import Settings as ServerSettings
from server.sign_on.routes import SIGN_IN_COOKIE
from tests.tables import every_row
from worker.settings import WorkerSettings

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs/reference"
PACKAGES = ("ampspec", "ampdata", "ampcore", "store", "infra", "server", "worker", "ampclient")
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
LINK = re.compile(r"\]\(([^)#\s]+)")
PATH = re.compile(rf"\b((?:deploy|examples|benchmarks|docs|tests|{'|'.join(PACKAGES)})/"
                  r"[\w./-]+\.(?:py|yaml|md|yml))")  # fmt: skip


@every_row("document", DOCUMENTS)
def test_every_link_and_file_named_in_a_document_exists(document):
    text = document.read_text(encoding="utf-8")
    links = [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]
    missing = [link for link in links if not (document.parent / link).exists()]
    missing += [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    assert missing == []


NAMED_TESTS = sorted(
    {
        named
        for document in DOCUMENTS
        for named in re.findall(r"(tests/[\w/]+\.py)::(\w+)", document.read_text(encoding="utf-8"))
    }
)


@every_row(("file", "name"), NAMED_TESTS)
def test_a_test_named_in_a_document_exists(file, name):
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


# A setting, command or route without documentation fails here, and so does a documented one that
# does not exist.

COOKIES = {COOKIE, PERSON_COOKIE, SIGN_IN_COOKIE}


def settings():
    """The variables that some process reads: the fields of the settings, and names in the code."""
    named = {
        f"AMPCORE_{name.upper()}"
        for settings in (ServerSettings, WorkerSettings)
        for name in settings.model_fields
    }
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            named |= set(re.findall(r"\"(AMPCORE_[A-Z_]+)\"", file.read_text(encoding="utf-8")))
    return named


def test_the_reference_lists_exactly_the_existing_settings():
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    tables, _, compose = text.partition("## Docker Compose")
    assert set(re.findall(r"^\| `(AMPCORE_[A-Z_]+)` \|", tables, re.MULTILINE)) == settings()
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    given = set(re.findall(r"^(?:# )?(AMPCORE_[A-Z_]+)=", example, re.MULTILINE))
    assert given <= settings() | set(re.findall(r"AMPCORE_[A-Z_]+", compose))


def commands(command, name):
    """The full names of this command's subcommands, at any depth, without those that are hidden."""
    if not (below := getattr(command, "commands", None)):
        return {name}
    shown = {word: command for word, command in below.items() if not command.hidden}
    return set().union(*(commands(below, f"{name} {word}") for word, below in shown.items()))


@pytest.mark.parametrize(("app", "name"), [(ampctl, "ampctl"), (ampserver, "ampserver")])
def test_the_reference_lists_exactly_the_existing_commands(app, name):
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    documented = set(re.findall(rf"^\| `({name}[a-z -]*)` \|", text, re.MULTILINE))
    short = {f"ampctl {verb}" for verb in SHORT}
    assert documented == commands(typer.main.get_command(app), name) - short
    assert all(f"`{command.removeprefix('ampctl ')}`" in text for command in short)


PROGRAMS = {
    "ampctl": typer.main.get_command(ampctl),
    "ampserver": typer.main.get_command(ampserver),
}
SHELL_SEPARATORS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>"}


def shell_commands(text):
    """The words of every `ampctl` and `ampserver` command in shell blocks and in inline code."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    for line in lines:
        for found in re.finditer(r"\b(?:ampctl|ampserver)\b(?! *[]:=/])", line):
            lexer = shlex.shlex(line[found.start() :], posix=True, punctuation_chars="|&;<>()")
            lexer.whitespace_split = True
            lexer.commenters = "#"
            try:
                words = list(lexer)
            except ValueError:  # a quotation mark that is closed on another line
                words = line[found.start() :].replace('"', " ").replace("'", " ").split()
            yield words


def unknown_in(words):
    """The first word of a command that its program does not know; None if it knows all."""
    command, options = PROGRAMS[words[0]], {}
    words = iter(words[1:])
    for word in words:
        options |= {
            name: one for one in command.params for name in (*one.opts, *one.secondary_opts)
        }
        options |= dict.fromkeys(("--help", "-h"))
        if word in SHELL_SEPARATORS or set(word) <= set("|&;<>()"):
            return None
        below = getattr(command, "commands", None)
        if word.startswith("-") and len(word) > 1:
            name, equals, _ = word.partition("=")
            if name not in options:
                return word
            if not equals and options[name] is not None and not options[name].is_flag:
                next(words, None)
        elif below and re.fullmatch(r"[a-z][a-z-]*", word):
            if word not in below:
                return word
            command = below[word]
    return None


CURRENT_DOCUMENTS = [document for document in DOCUMENTS if "changelog" not in document.name.lower()]
"""All but the changelogs, which describe older versions."""


def every_option(command):
    """Every option of a command and of its subcommands."""
    for one in command.params:
        yield from (*one.opts, *one.secondary_opts)
    for below in getattr(command, "commands", {}).values():
        yield from every_option(below)


OPTIONS = {"--help", *(name for program in PROGRAMS.values() for name in every_option(program))}
FOREIGN_OPTIONS = {
    *("--require-hashes", "--no-deps", "--durations"),
    *("--data-root", "--dataset", "--resume", "--code", "--init", "--spec"),
    *("--threads", "--timeout"),
    *("--options", "--name", "--cache", "--memory", "--cpu", "--disk"),
}
"""Options of pip, pytest and `python -m ampcore` (`ampdata`) that a document names without
the program."""


@every_row("document", CURRENT_DOCUMENTS)
def test_every_command_and_option_in_a_document_exists(document):
    text = document.read_text(encoding="utf-8")
    assert [words for words in shell_commands(text) if unknown_in(words)] == []
    alone = re.findall(r"`(--[a-z-]+)[^`]*`", text)
    assert set(alone) - OPTIONS - FOREIGN_OPTIONS == set()


def test_the_documents_contain_more_than_100_commands():
    text = "".join(document.read_text(encoding="utf-8") for document in CURRENT_DOCUMENTS)
    assert len(list(shell_commands(text))) > 100


def test_an_unknown_command_or_option_is_found():
    block = "```sh\nampctl token create ci \\\n  --expires-at 90d | cat --not-ours\n```\n"
    text = f"{block}`ampserver sing`"
    wrong = [unknown_in(words) for words in shell_commands(text)]
    assert wrong == ["--expires-at", "sing"]
    right = (
        "`ampctl --connection FILE login`, `ampctl token create ci --expires 90d`, `ampctl list`"
    )
    assert [unknown_in(words) for words in shell_commands(right)] == [None, None, None]


@pytest.fixture
def routes(tmp_path):
    """What the server says that it answers."""
    settings = ServerSettings(
        database_url="sqlite://", redis_url="redis://127.0.0.1:1/0", data_dir=tmp_path
    )
    document = create_app(settings, reconcile=False).openapi()
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in document["paths"].items()
        for method in methods
    }


def test_the_reference_lists_exactly_the_existing_routes(routes):
    text = (REFERENCE / "http.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([A-Z]+ \S+)` \|", text, re.MULTILINE)) == routes


def test_the_guide_lists_exactly_the_existing_metrics():
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "server").rglob("*.py"))
    text = (ROOT / "docs/guides/operating.md").read_text(encoding="utf-8")
    documented = {name.removesuffix("_total") for name in re.findall(r"`(ampcore_[a-z_]+)`", text)}
    assert documented == set(re.findall(r"\"(ampcore_[a-z_]+)\"", code)) - COOKIES
