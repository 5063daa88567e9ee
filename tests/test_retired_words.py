"""Retired words stay out of file names and public identifiers; the field has a term for each.

`RETIRED` names that term. A word counts wherever it is a part of a name: `verdict` in
`explain_verdict`, in `OverflowVerdict` and in `verdict.py`. Names with a leading underscore, local
variables and texts are free.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tables import every_row

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "ampspec",
    "ampdata",
    "ampcore",
    "server",
    "store",
    "infra",
    "worker",
    "ampclient",
    "migrations",
)
RETIRED = {
    "abilities": "capabilities",
    "aside": "background",
    "bell": "notify, subscribe",
    "blame": "origin, cause",
    "census": "metrics, counts",
    "closing": "finalize",
    "courier": "uploader",
    "cut": "slice",
    "door": "auth middleware",
    "ease": "what the workaround does",
    "endings": "outcome",
    "face": "interface, view",
    "halts": "stop reason",
    "intake": "submission",
    "keyring": "authenticator",
    "ledger": "event log",
    "loose": "unmerged, compaction queue",
    "lost": "expired, disconnected",
    "marks": "merge index, markers",
    "material": "context",
    "packed": "encoded",
    "parcel": "upload",
    "patience": "retry, timeout",
    "posting": "submission",
    "presence": "registration",
    "printed": "log, output",
    "pyramid": "downsampling levels",
    "relay": "telemetry writer",
    "scratch": "work directories",
    "spool": "write buffer",
    "standing": "state, progress",
    "story": "event stream",
    "surroundings": "environment",
    "tally": "totals, summary",
    "tidy": "clean up",
    "together": "batch",
    "told": "written, reported, emitted",
    "trial": "autotuning, measurement",
    "verdict": "cause",
    "wire": "HTTP backend, protocol",
    "workshop": "context",
}
PLURALS = {"tally": "tallies", "story": "stories", "census": "censuses"}
FORMS = {form: word for word in RETIRED for form in (word, PLURALS.get(word, f"{word}s"))}
ALLOWED = {
    "connection_lost": "the method of asyncio.Protocol",
    "relay_notifications": "passes messages of Redis on to the subscribers of this process",
    "scratch_dir": "the setting AMPCORE_SCRATCH_DIR; scratch space is the term of HPC clusters",
}
"""Names with a retired word, and why each stays."""


def words_of(name: str) -> list[str]:
    """`OverflowVerdict` and `overflow_verdict` as their words in lower case."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def retired_in(name: str) -> list[str]:
    """The retired words that a name contains."""
    return [FORMS[word] for word in words_of(name) if word in FORMS and name not in ALLOWED]


def public_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Classes, functions, methods and their parameters that are public, with their lines.

    What is inside a function or below a private name is not.
    """
    bodies: list[ast.Module | ast.ClassDef] = [tree]
    while bodies:
        for node in bodies.pop().body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("_") and node.name != "__init__":
                continue
            yield node.lineno, node.name
            if isinstance(node, ast.ClassDef):
                bodies.append(node)
                continue
            arguments = node.args
            for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if not one.arg.startswith("_"):
                    yield one.lineno, one.arg


def offenders(package: Path) -> list[str]:
    """Every file and public name of a package with a retired word, and the term to use."""
    found = []
    for file in sorted(package.rglob("*.py")):
        relative = file.relative_to(package.parent)
        names = [(0, part) for part in relative.with_suffix("").parts]
        names += public_names(ast.parse(file.read_text(encoding="utf-8")))
        found += [
            f"{relative}:{line} {name}: {word} -> {RETIRED[word]}"
            for line, name in names
            for word in retired_in(name)
        ]
    return found


@every_row("package", PACKAGES)
def test_no_public_name_has_a_retired_word(package: str) -> None:
    found = offenders(ROOT / package)
    assert found == [], "\n".join(["", *found])


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_every_exception_is_used(name: str) -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert any(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for file in files)


def test_retired_words_are_found_in_files_classes_functions_and_parameters(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "courier.py").write_text(
        "def deliver(parcel, _bell): told = 1\n"
        "class JobStory:\n    def verdicts(self): ...\n    def _wire(self, door): ...\n"
        "def cutoff(scratch_dir): ...\n"
    )
    assert [line.partition(" ")[2] for line in offenders(package)] == [
        "courier: courier -> uploader",
        "parcel: parcel -> upload",
        "JobStory: story -> event stream",
        "verdicts: verdict -> cause",
    ]
