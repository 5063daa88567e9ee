"""Imports point one way and in no circle; heavy libraries are loaded only where they are used."""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SHARED_VOCABULARY = ("ampcore.spec", "ampcore.telemetry")
"""What every process shares; nobody but the trainer itself imports the rest of ampcore."""

ARCHITECTURES = "ampcore.architectures"
"""The layers of every kind of model, without TensorFlow."""

API = "ampcore.api"
"""The models of the HTTP API, shared by server and client."""

PREFLIGHT = "ampcore.preflight"
"""What is known of a job before it runs, without TensorFlow."""

ISOLATION = "ampcore.isolation"
"""What a process gives up; the standard library only."""

ALLOWED = {
    "ampcore/spec": (),
    "ampcore/telemetry": (),
    "ampcore/api": SHARED_VOCABULARY,
    "ampcore/architectures": SHARED_VOCABULARY,
    "ampcore/preflight": (*SHARED_VOCABULARY, ARCHITECTURES),
    "ampcore": (),
    "store": SHARED_VOCABULARY,
    "service": SHARED_VOCABULARY,
    "server": (*SHARED_VOCABULARY, API, PREFLIGHT, ISOLATION, "store", "service"),
    "worker": (*SHARED_VOCABULARY, ISOLATION, "store", "service"),
    "ampclient": (*SHARED_VOCABULARY, API, PREFLIGHT),
    "migrations": ("store",),
}
"""What each package may import of the others."""

ALLOWED_IN_SERVER = {
    "http": ("errors",),
    "access": ("errors", "http"),
    "streaming": ("access", "errors", "http"),
    "telemetry": ("row_models", "deps", "errors", "http", "streaming"),
    "background": ("dispatch", "file_removal"),
    "metrics": ("schema",),
    "comparison": ("row_models", "deps", "errors", "http", "telemetry"),
    "jobs": (
        "access",
        "dataset_folder",
        "deps",
        "dispatch",
        "errors",
        "file_removal",
        "http",
        "idempotency",
        "request_batcher",
        "row_models",
    ),
}
"""What the packages inside the server may import of it; what is not here wires or translates."""

PACKAGES_WITHOUT_CIRCLES = ("ampcore", "store", "service", "server", "worker", "ampclient")
"""Checked module by module."""

EVERYWHERE = ("ampcore", "ampcore.__version__")
"""The number itself, which costs nothing to know."""


OBJECT_STORES = {"fsspec", "s3fs", "aiobotocore", "aiohttp"}
"""Loaded when files are kept in one, and not before."""


def imports(file: Path) -> Iterator[str]:
    """The dotted name of everything that a file imports, wherever in it."""
    yield from imports_below(ast.parse(file.read_text(encoding="utf-8")), file)


def imports_at_run_time(file: Path) -> Iterator[str]:
    """The same without `if TYPE_CHECKING:`; imports inside functions count."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    yield from imports_below(tree, file)


def imports_below(tree: ast.AST, file: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import hides where it leads"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_point_one_way(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    packages = {name.partition("/")[0] for name in ALLOWED}
    allowed = (package.replace("/", "."), *ALLOWED[package])
    for file in files:
        for name in imports(file):
            if name in EVERYWHERE or not any(is_within(name, other) for other in packages):
                continue
            assert any(is_within(name, other) for other in allowed), (
                f"{file.relative_to(ROOT)} imports {name}; {package} may import {ALLOWED[package]}"
            )


@pytest.mark.parametrize("package", ["checkpoint", "diagnostics", "distributed", "precision"])
def test_what_training_is_made_of_imports_nothing_of_it(package):
    files = list((ROOT / "ampcore" / package).rglob("*.py"))
    assert files
    for file in files:
        assert not any(is_within(name, "ampcore.train") for name in imports(file)), file


@pytest.mark.parametrize("package", ALLOWED_IN_SERVER)
def test_inside_the_server_imports_point_one_way(package):
    files = list((ROOT / "server" / package).rglob("*.py"))
    assert files
    allowed = [f"server.{name}" for name in (package, *ALLOWED_IN_SERVER[package])]
    for file in files:
        for name in imports(file):
            if is_within(name, "server"):
                assert any(is_within(name, other) for other in allowed), f"{file} imports {name}"


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def import_graph(packages: Collection[str]) -> dict[str, set[str]]:
    """Each module of the packages, and those among them that it imports at run time."""
    files = {module_name(file): file for name in packages for file in (ROOT / name).rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, file in files.items():
        found = (
            name if name in files else name.rpartition(".")[0]  # a name inside of a module
            for name in imports_at_run_time(file)
            if name not in EVERYWHERE
        )
        graph[module] = {name for name in found if name in files and name != module}
    return graph


def import_circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or through others."""

    def reachable(start: str) -> set[str]:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            new = set(graph[waiting.pop()]) - found
            found |= new
            waiting += new
        return found

    reach = {module: reachable(module) for module in graph}
    in_circles = [module for module in graph if module in reach[module]]
    groups = {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in in_circles
    }
    return sorted(sorted(group) for group in groups)


def server_part(module: str) -> str:
    """The package inside the server that a module belongs to, or the module itself at its root."""
    return ".".join(module.split(".")[:2])


@pytest.mark.parametrize("package", PACKAGES_WITHOUT_CIRCLES)
def test_no_modules_import_each_other_in_a_circle(package):
    assert import_circles(import_graph([package])) == []


def test_no_packages_of_the_server_import_each_other_in_a_circle():
    graph: dict[str, set[str]] = {}
    for module, imported in import_graph(["server"]).items():
        part = server_part(module)
        graph.setdefault(part, set()).update({server_part(name) for name in imported} - {part})
    assert import_circles(graph) == []


def test_a_circle_is_found_with_all_its_modules():
    graph = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": [], "f": ["a"]}
    assert import_circles(graph) == [["a", "b", "c"]]


def test_every_package_has_its_place_in_the_table():
    packages = {folder.parent.name for folder in ROOT.glob("*/__init__.py")}
    assert packages == {name for name in ALLOWED if "/" not in name}


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        ("ampcore.spec, ampclient", {"tensorflow", "fastapi", "sqlalchemy", "celery"}),
        ("ampcore, ampcore.telemetry", {"tensorflow", "pyarrow"}),
        (
            "ampcore.api.jobs, ampcore.api.comparison, ampcore.api.tokens, ampcore.api.steps",
            {"tensorflow", "numpy", "fastapi", "sqlalchemy"},
        ),
        ("ampcore.preflight, ampcore.preflight.report_text", {"tensorflow", "keras", "numpy"}),
        ("ampcore.checkpoint", {"tensorflow", "keras"}),
        ("worker.app", {"tensorflow", "fastapi", *OBJECT_STORES}),
        ("server.cli.app", {"tensorflow", "fastapi", "sqlalchemy", "celery", *OBJECT_STORES}),
        ("server.app", {"tensorflow", "alembic", "pyarrow", *OBJECT_STORES}),
        (
            "service.settings, service.log_config, service.storage, service.celery_names",
            {"tensorflow", "fastapi", "sqlalchemy", "celery", *OBJECT_STORES},
        ),
    ],
)
def test_what_is_not_needed_is_not_loaded(modules, without):
    script = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    assert not without & set(loaded.split())
