"""What the documents name is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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
