"""Imports point one way, and the heavy libraries stay where they are needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

WORDS = ("ampcore.spec", "ampcore.series")
"""What every process shares; nobody but the trainer itself imports the rest of ampcore."""

PREFLIGHT = "ampcore.preflight"
"""What is known of a job before it runs, without TensorFlow."""

ISOLATION = "ampcore.isolation"
"""What a process gives up; the standard library only."""

ALLOWED = {
    "ampcore/spec": (),
    "ampcore/series": (),
    "ampcore/preflight": WORDS,
    "ampcore": (),
    "store": WORDS,
    "service": WORDS,
    "server": (*WORDS, PREFLIGHT, ISOLATION, "store", "service"),
    "worker": (*WORDS, ISOLATION, "store", "service"),
    "ampclient": (*WORDS, PREFLIGHT),
    "migrations": ("store",),
}
"""What each package may import of the others."""

IN_SERVER = {
    "http": ("errors",),
    "access": ("errors", "http"),
    "streaming": ("access", "errors", "http"),
    "telemetry": ("deps", "errors", "http", "streaming", "views"),
    "metrics": ("reconcile", "schema"),
    "comparing": ("deps", "http", "telemetry", "views"),
    "jobs": ("access", "datasets", "deps", "errors", "http", "intake", "views", "wake"),
}
"""What the packages inside the server may import of it; what is not here wires or translates."""

EVERYWHERE = ("ampcore", "ampcore.__version__")
"""The number itself, which costs nothing to know."""


OBJECT_STORES = {"fsspec", "s3fs", "aiobotocore", "aiohttp"}
"""Loaded when files are kept in one, and not before."""


def imports(file: Path) -> Iterator[str]:
    """The dotted name of everything that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import hides where it leads"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def leads_into(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_point_one_way(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    packages = {name.partition("/")[0] for name in ALLOWED}
    allowed = (package.replace("/", "."), *ALLOWED[package])
    for file in files:
        for name in imports(file):
            if name in EVERYWHERE or not any(leads_into(name, other) for other in packages):
                continue
            assert any(leads_into(name, other) for other in allowed), (
                f"{file.relative_to(ROOT)} imports {name}; {package} may import {ALLOWED[package]}"
            )


@pytest.mark.parametrize("package", IN_SERVER)
def test_inside_the_server_imports_point_one_way(package):
    files = list((ROOT / "server" / package).rglob("*.py"))
    assert files
    allowed = [f"server.{name}" for name in (package, *IN_SERVER[package])]
    for file in files:
        for name in imports(file):
            if leads_into(name, "server"):
                assert any(leads_into(name, other) for other in allowed), f"{file} imports {name}"


def test_every_package_has_its_place_in_the_table():
    packages = {folder.parent.name for folder in ROOT.glob("*/__init__.py")}
    assert packages == {name for name in ALLOWED if "/" not in name}


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        ("ampcore.spec, ampclient", {"tensorflow", "fastapi", "sqlalchemy", "celery"}),
        ("ampcore, ampcore.series", {"tensorflow", "pyarrow"}),
        ("ampcore.preflight, ampcore.preflight.text", {"tensorflow", "keras", "numpy"}),
        ("worker.app", {"tensorflow", "fastapi", *OBJECT_STORES}),
        ("server.cli.app", {"tensorflow", "fastapi", "sqlalchemy", "celery", *OBJECT_STORES}),
        ("server.app", {"tensorflow", "alembic", "pyarrow", *OBJECT_STORES}),
        (
            "service.settings, service.logs, service.storage, service.celery_names",
            {"tensorflow", "fastapi", "sqlalchemy", "celery", *OBJECT_STORES},
        ),
    ],
)
def test_what_is_not_needed_is_not_loaded(modules, without):
    script = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    assert not without & set(loaded.split())
