"""Which package may import which, no import cycles, and heavy libraries only where needed."""

import ast
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.tables import every_row

ROOT = Path(__file__).parents[1]

ISOLATION = "infra.isolation"
"""Confines a trainer process; imports only the standard library."""

ALLOWED = {
    "ampspec": (),
    "ampspec/documents": (),
    "ampspec/telemetry": (),
    "ampdata": ("ampspec", ISOLATION),
    "ampcore": ("ampspec", "ampdata", ISOLATION, "infra.parent_death"),
    "infra": ("ampspec",),
    "infra/isolation": (),
    "store": ("ampspec",),
    "migrations": ("store",),
    "server": ("ampspec", "infra", "store"),
    "server/child": ("ampspec", "ampdata", "infra"),
    "worker": ("ampspec", "infra", "store"),
    "worker/trainer/child": ("ampspec", "ampdata", "ampcore", "infra"),
    "ampclient": ("ampspec", "ampcore.conversion", "ampcore.profile.report_text"),
}
"""What each package may import of the others; a package inside of another has its own row.

Only the trainer and what runs in its process import TensorFlow: `ampcore`, and the child processes
of `worker`; files of strangers are read in child processes of `server`. The client imports
`ampcore.conversion` only when it is given a Keras model, and `report_text` formats the report of a
profile without TensorFlow.
"""

ALLOWED_IN_SERVER = {
    "http": ("errors",),
    "http/access": ("errors", "http"),
    "http/admission": ("errors", "http"),
    "http/serving": ("errors", "http"),
    "http/streaming": ("errors", "http"),
    "telemetry": ("deps", "documentation", "errors", "http", "row_models"),
    "datasets": (
        "deps",
        "documentation",
        "errors",
        "file_removal",
        "http",
        "idempotency",
        "row_models",
    ),
    "files": (
        "datasets",
        "deps",
        "documentation",
        "errors",
        "file_removal",
        "http",
        "idempotency",
        "row_models",
    ),
    "models": (
        "deps",
        "documentation",
        "errors",
        "http",
        "idempotency",
        "row_models",
        "telemetry",
    ),
    "plugins": (),
    "background": ("dispatch", "file_removal", "notifications", "studies"),
    "notifications": ("errors", "settings"),
    "allocations": ("background.periodic_thread",),
    "metrics": ("http.admission", "schema"),
    "health": ("deps", "dispatch", "documentation", "errors", "metrics", "schema"),
    "documentation": ("http", "request_bodies"),
    "event_log": ("deps", "documentation", "http", "row_models", "telemetry"),
    "comparison": ("deps", "documentation", "errors", "http", "row_models", "telemetry"),
    "jobs": (
        "data_root",
        "metrics",
        "request_bodies",
        "datasets",
        "deps",
        "dispatch",
        "documentation",
        "errors",
        "file_removal",
        "files",
        "http",
        "idempotency",
        "plugins",
        "request_batcher",
        "row_models",
        "telemetry",
    ),
    "submissions": (
        "data_root",
        "datasets",
        "deps",
        "dispatch",
        "documentation",
        "errors",
        "files",
        "http",
        "idempotency",
        "jobs",
        "plugins",
        "request_batcher",
        "request_bodies",
        "row_models",
    ),
    "studies": (
        "submissions",
        "data_root",
        "datasets",
        "deps",
        "dispatch",
        "documentation",
        "errors",
        "files",
        "http",
        "idempotency",
        "jobs",
        "request_bodies",
        "row_models",
        "telemetry",
    ),
    "tracked_runs": (
        "deps",
        "documentation",
        "errors",
        "http",
        "idempotency",
        "jobs",
        "row_models",
        "streaming",
    ),
}
"""What the packages inside the server may import of it; packages that are not listed, and routes,
may import every part."""

PACKAGES_WITHOUT_CYCLES = (
    "ampspec",
    "ampdata",
    "ampcore",
    "infra",
    "store",
    "server",
    "worker",
    "ampclient",
)
"""Checked module by module."""

LAYERED_PACKAGES = {
    "ampspec": 2,
    "ampdata": 2,
    "ampcore": 2,
    "ampcore/data": 3,
    "ampcore/diagnostics": 3,
    "ampcore/distributed": 3,
    "ampcore/models": 3,
    "ampcore/precision": 3,
    "ampcore/training": 3,
    "infra": 2,
    "store": 2,
    "server": 2,
    "worker": 2,
}
"""Checked folder by folder, too: with the number of parts in the name of such a folder."""

MOST_MODULES = 16
"""Beside each other in a folder; more belong into folders by subject."""

FLAT = {
    "ampspec/api": "one module for each resource of the API",
    "ampdata": "what all readers share",
    "migrations/versions": "one module for each revision",
}
"""Folders with more modules, and why."""
PACKAGES_WITHOUT_CYCLES_OF_TYPES = ("ampclient",)
"""Checked with the imports of type checkers, too."""


OBJECT_STORES = {"fsspec", "s3fs", "aiobotocore", "aiohttp"}
"""Libraries that are loaded only when files are stored in an object store."""

NEEDED_LATER = {"optuna", "scipy", "pandas", "jsonschema", "referencing", "PIL", "httpx", "rich"}
"""Libraries that the API loads for single requests, in a child process, or never."""


@cache
def imports(file: Path) -> list[str]:
    """The dotted names of all imports in a file, at any level."""
    return list(imports_below(ast.parse(file.read_text(encoding="utf-8")), file))


@cache
def imports_at_run_time(file: Path) -> list[str]:
    """The same without `if TYPE_CHECKING:`; imports inside functions count."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    return list(imports_below(tree, file))


def imports_below(tree: ast.AST, file: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports are not allowed"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def files_of(package: str) -> list[Path]:
    """The files of a package, except those of a package inside of it that has its own row."""
    inner = [ROOT / name for name in ALLOWED if name.startswith(f"{package}/")]
    files = [
        file
        for file in (ROOT / package).rglob("*.py")
        if not any(file.is_relative_to(folder) for folder in inner)
    ]
    assert files
    return files


@every_row("package", ALLOWED)
def test_a_package_imports_only_allowed_packages(package):
    files = files_of(package)
    packages = {name.partition("/")[0] for name in ALLOWED}
    allowed = (package.replace("/", "."), *ALLOWED[package])
    for file in files:
        for name in imports(file):
            if not any(is_within(name, other) for other in packages):
                continue
            assert any(is_within(name, other) for other in allowed), (
                f"{file.relative_to(ROOT)} imports {name}; {package} may import {ALLOWED[package]}"
            )


@every_row(
    "package",
    [
        "callbacks",
        "checkpoint",
        "compat",
        "data",
        "diagnostics",
        "distributed",
        "models",
        "objectives",
        "precision",
        "profile",
    ],
)
def test_packages_that_training_uses_do_not_import_it(package):
    files = list((ROOT / "ampcore" / package).rglob("*.py"))
    assert files
    for file in files:
        assert not any(is_within(name, "ampcore.training") for name in imports(file)), file


@every_row("package", ALLOWED_IN_SERVER)
def test_a_package_of_the_server_imports_only_allowed_ones(package):
    files = list((ROOT / "server" / package).rglob("*.py"))
    files = [file for file in files if not file.stem.endswith("routes")]
    assert files
    allowed = [f"server.{name}" for name in (package, *ALLOWED_IN_SERVER[package])]
    allowed = [name.replace("/", ".") for name in allowed]
    for file in files:
        for name in imports(file):
            if is_within(name, "server"):
                assert any(is_within(name, other) for other in allowed), f"{file} imports {name}"


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def import_graph(
    packages: Collection[str],
    imports_of: Callable[[Path], list[str]] = imports_at_run_time,
) -> dict[str, set[str]]:
    """Each module of the packages, and those among them that it imports."""
    files = {module_name(file): file for name in packages for file in (ROOT / name).rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, file in files.items():
        found = (
            name if name in files else name.rpartition(".")[0]  # a name inside of a module
            for name in imports_of(file)
        )
        graph[module] = {name for name in found if name in files and name != module}
    return graph


def import_cycles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
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
    in_cycles = [module for module in graph if module in reach[module]]
    groups = {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in in_cycles
    }
    return sorted(sorted(group) for group in groups)


def folder_of(module: str, depth: int) -> str:
    """The folder of a package that a module belongs to, or the module itself at its root.

    The routes of all features are one layer: nothing but the application imports them.
    """
    if module.startswith("server.") and module.endswith("routes"):
        return "server routes"
    return ".".join(module.split(".")[:depth])


@every_row("package", PACKAGES_WITHOUT_CYCLES)
def test_a_package_has_no_import_cycles(package):
    assert import_cycles(import_graph([package])) == []


@every_row("package", PACKAGES_WITHOUT_CYCLES_OF_TYPES)
def test_a_package_has_no_import_cycles_of_types_either(package):
    assert import_cycles(import_graph([package], imports)) == []


@every_row(("package", "depth"), LAYERED_PACKAGES.items())
def test_the_folders_of_a_package_have_no_import_cycles(package, depth):
    graph: dict[str, set[str]] = {}
    for module, imported in import_graph([package]).items():
        # Its `__init__` imports all of them, and none of them imports it.
        if module.count(".") >= depth - 1:
            folder = folder_of(module, depth)
            folders = {folder_of(name, depth) for name in imported if name.count(".") >= depth - 1}
            graph.setdefault(folder, set()).update(folders - {folder})
    assert import_cycles(graph) == []


@every_row("package", LAYERED_PACKAGES)
def test_a_folder_has_few_modules_beside_each_other(package):
    for folder in {file.parent for file in (ROOT / package).rglob("*.py")}:
        name = folder.relative_to(ROOT).as_posix()
        modules = [file.name for file in folder.glob("*.py") if not file.name.startswith("__")]
        assert len(modules) <= MOST_MODULES or name in FLAT, f"{name}: {sorted(modules)}"


def test_import_cycles_returns_all_modules_of_a_cycle():
    graph = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": [], "f": ["a"]}
    assert import_cycles(graph) == [["a", "b", "c"]]


def test_allowed_lists_every_package():
    packages = {folder.parent.name for folder in ROOT.glob("*/__init__.py")}
    assert packages == {name for name in ALLOWED if "/" not in name}


@pytest.mark.slow
@every_row(
    ("modules", "without"),
    [
        ("ampspec.jobs, ampclient", {"tensorflow", "fastapi", "sqlalchemy", "celery"}),
        ("ampcore, ampspec.telemetry", {"tensorflow", "pyarrow"}),
        (
            "ampspec.api.job.jobs, ampspec.api.job.steps, ampspec.api.tokens",
            {"tensorflow", "numpy", "fastapi", "sqlalchemy"},
        ),
        ("ampspec.preflight, ampspec.preflight.report_text", {"tensorflow", "keras", "numpy"}),
        ("ampcore.distributed.launcher, ampcore.cli.launch", {"tensorflow", "keras", "numpy"}),
        ("ampcore.checkpoint", {"tensorflow", "keras"}),
        ("ampdata.file_description", {"tensorflow", "keras", "pyarrow", "PIL"}),
        ("server.child.inspect_upload", {"tensorflow", "numpy", "pyarrow", "pydantic"}),
        ("ampdata.description", {"tensorflow", "keras", "pandas", "fastapi"}),
        ("worker.app", {"tensorflow", "fastapi", *OBJECT_STORES}),
        (
            "server.cli.app",
            {"tensorflow", "fastapi", "pydantic", "sqlalchemy", "celery", *OBJECT_STORES},
        ),
        (
            "server.app, server.embedded.stack",
            {"tensorflow", "alembic", "pyarrow", *NEEDED_LATER, *OBJECT_STORES},
        ),
        # What a step read and the compaction import.
        (
            "server.app, ampspec.telemetry.steps.codec, server.telemetry.arrow",
            {"pandas", "pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset"},
        ),
        (
            "infra.settings, infra.log_config, infra.storage, infra.celery_names",
            {"tensorflow", "fastapi", "sqlalchemy", "celery", *OBJECT_STORES},
        ),
    ],
)
def test_an_import_does_not_load_heavy_libraries(modules, without):
    script = f"import sys, {modules}; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", script], cwd=ROOT, text=True)
    assert not without & set(loaded.split())


def test_own_programs_start_with_a_safe_path():
    """A file of the current folder must not stand in for a module: `-P`, or `-I`."""
    unsafe = []
    for package in PACKAGES_WITHOUT_CYCLES:
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.List | ast.Tuple):
                    continue
                words = [ast.unparse(element).strip("'") for element in node.elts]
                starts_code = "sys.executable" in words and {"-m", "-c"} & set(words)
                if starts_code and not {"-P", "-I"} & set(words):
                    unsafe.append(f"{file.relative_to(ROOT)}:{node.lineno}: {words}")
    assert unsafe == []
