"""What the documents name is there."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from ampclient.cli.app import app as ampctl
from server.access.sessions import COOKIE
from server.app import create_app
from server.cli.app import app as ampserver
from server.settings import Settings as ServerSettings
from worker.settings import Settings as WorkerSettings

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs/reference"
PACKAGES = ("ampcore", "store", "service", "server", "worker", "ampclient")
DOCUMENTS = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
LINK = re.compile(r"\]\(([^)#\s]+)")
PATH = re.compile(r"\b((?:examples|benchmarks|docs|tests|server|worker|store|ampcore|ampclient)/"
                  r"[\w./-]+\.(?:py|yaml|md|yml))")  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_and_every_file_named_leads_somewhere(document):
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


@pytest.mark.parametrize(("file", "name"), NAMED_TESTS)
def test_a_test_that_a_document_names_is_there(file, name):
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


# A setting, a command or a route that nobody has written about fails here, and so does one that is
# written about and not there.


def settings():
    """The variables that some process reads: the fields of the settings, and names in the code."""
    named = {
        f"AMPCORE_{field.name.upper()}"
        for settings in (ServerSettings, WorkerSettings)
        for field in fields(settings)
    }
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            named |= set(re.findall(r"\"(AMPCORE_[A-Z_]+)\"", file.read_text(encoding="utf-8")))
    return named


def test_every_setting_is_in_the_reference_and_nothing_else_is():
    text = (REFERENCE / "settings.md").read_text(encoding="utf-8")
    tables, _, compose = text.partition("## Docker Compose")
    assert set(re.findall(r"^\| `(AMPCORE_[A-Z_]+)` \|", tables, re.MULTILINE)) == settings()
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    given = set(re.findall(r"^(?:# )?(AMPCORE_[A-Z_]+)=", example, re.MULTILINE))
    assert given <= settings() | set(re.findall(r"AMPCORE_[A-Z_]+", compose))


def commands(command, name):
    """Every command below this one, by its whole name."""
    if not (below := getattr(command, "commands", None)):
        return {name}
    own = {name} if command.invoke_without_command else set()
    return own.union(*(commands(one, f"{name} {word}") for word, one in below.items()))


@pytest.mark.parametrize(("app", "name"), [(ampctl, "ampctl"), (ampserver, "ampserver")])
def test_every_command_is_in_the_reference_and_nothing_else_is(app, name):
    text = (REFERENCE / "commands.md").read_text(encoding="utf-8")
    told = set(re.findall(rf"^\| `({name}[a-z ]*)` \|", text, re.MULTILINE))
    assert told == commands(typer.main.get_command(app), name) - {name}


@pytest.fixture
def routes(tmp_path):
    """What the server says that it answers."""
    settings = ServerSettings("sqlite://", "redis://127.0.0.1:1/0", tmp_path)
    document = create_app(settings, reconcile=False).openapi()
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in document["paths"].items()
        for method in methods
    }


def test_every_route_is_in_the_reference_and_nothing_else_is(routes):
    text = (REFERENCE / "http.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([A-Z]+ \S+)` \|", text, re.MULTILINE)) == routes


def test_every_metric_is_in_the_guide_and_nothing_else_is():
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "server").rglob("*.py"))
    text = (ROOT / "docs/guides/operating.md").read_text(encoding="utf-8")
    told = {name.removesuffix("_total") for name in re.findall(r"`(ampcore_[a-z_]+)`", text)}
    assert told == set(re.findall(r"\"(ampcore_[a-z_]+)\"", code)) - {COOKIE}
