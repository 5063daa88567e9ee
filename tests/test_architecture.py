"""Which package may import which, no import cycles, and heavy libraries only where needed."""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from tests.tables import every_row

ROOT = Path(__file__).parents[1]

SHARED_PACKAGES = ("ampcore.spec", "ampcore.telemetry")
"""Shared by every process; only the trainer imports the rest of ampcore."""

ARCHITECTURES = "ampcore.architectures"
"""The layers of every kind of model, without TensorFlow."""

API = "ampcore.api"
"""The models of the HTTP API, shared by server and client."""

PREFLIGHT = "ampcore.preflight"
"""Checks of a job before it runs, without TensorFlow."""

CONVERSION = "ampcore.conversion"
"""Turns a Keras model into a spec; the client imports it only when it is given one."""

LAB = "ampcore.lab"
"""What studies ask and answer, without TensorFlow."""

PROFILE_TEXT = "ampcore.profile.report_text"
"""Formats the report of a profile, without TensorFlow."""

ISOLATION = "ampcore.isolation"
"""Confines a trainer process; imports only the standard library."""

ALLOWED = {
    "ampcore/spec": (),
    "ampcore/telemetry": (),
    "ampcore/api": SHARED_PACKAGES,
    "ampcore/architectures": SHARED_PACKAGES,
    "ampcore/formats": ("ampcore.errors", ISOLATION, "ampcore.spec"),
    "ampcore/bundles": ("ampcore.errors", "ampcore.allocation_errors", "ampcore.formats"),
    "ampcore/preflight": (*SHARED_PACKAGES, ARCHITECTURES),
    "ampcore/lab": (*SHARED_PACKAGES, API, PREFLIGHT),
    "ampcore": (),
    "store": SHARED_PACKAGES,
    "service": SHARED_PACKAGES,
    "server": (*SHARED_PACKAGES, API, PREFLIGHT, LAB, ISOLATION, "store", "service"),
    "worker": (*SHARED_PACKAGES, ISOLATION, "store", "service"),
    "ampclient": (*SHARED_PACKAGES, API, PREFLIGHT, LAB, CONVERSION, PROFILE_TEXT),
    "migrations": ("store",),
}
"""What each package may import of the others."""

ALLOWED_IN_SERVER = {
    "http": ("errors",),
    "access": ("errors", "http"),
    "admission": ("access", "errors", "http"),
    "streaming": ("access", "admission", "errors", "http"),
    "telemetry": ("access", "row_models", "deps", "errors", "http", "streaming"),
    "datasets": ("errors", "file_removal", "streaming"),
    "files": ("datasets", "errors", "http", "row_models"),
    "packages": (),
    "background": ("dispatch", "file_removal", "studies"),
    "studies": (
        "access",
        "dataset_folder",
        "datasets",
        "deps",
        "dispatch",
        "errors",
        "files",
        "http",
        "idempotency",
        "jobs",
        "row_models",
        "telemetry",
    ),
    "metrics": ("admission", "schema"),
    "comparison": ("access", "row_models", "deps", "errors", "http", "telemetry"),
    "jobs": (
        "access",
        "admission",
        "dataset_folder",
        "datasets",
        "deps",
        "dispatch",
        "errors",
        "file_removal",
        "files",
        "http",
        "idempotency",
        "packages",
        "request_batcher",
        "row_models",
    ),
}
"""What the packages inside the server may import of it; packages that are not listed may import
every part."""

PACKAGES_WITHOUT_CYCLES = ("ampcore", "store", "service", "server", "worker", "ampclient")
"""Checked module by module."""

EVERYWHERE = ("ampcore", "ampcore.__version__")
"""The version, which every package may import."""

OBJECT_STORES = {"fsspec", "s3fs", "aiobotocore", "aiohttp"}
"""Libraries that are loaded only when files are stored in an object store."""

NEEDED_LATER = {"optuna", "scipy", "pandas", "jsonschema", "referencing", "PIL", "httpx", "rich"}
"""Libraries that the API loads for single requests, in a child process, or never."""


def imports(file: Path) -> Iterator[str]:
    """The dotted names of all imports in a file, at any level."""
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
            assert node.level == 0, f"{file}: relative imports are not allowed"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@every_row("package", ALLOWED)
def test_a_package_imports_only_allowed_packages(package):
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


@every_row(
    "package", ["callbacks", "checkpoint", "compat", "diagnostics", "distributed", "precision"]
)
def test_packages_that_training_uses_do_not_import_ampcore_train(package):
    files = list((ROOT / "ampcore" / package).rglob("*.py"))
    assert files
    for file in files:
        assert not any(is_within(name, "ampcore.train") for name in imports(file)), file


@every_row("package", ALLOWED_IN_SERVER)
def test_a_package_of_the_server_imports_only_allowed_ones(package):
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


def server_part(module: str) -> str:
    """The package inside the server that a module belongs to, or the module itself at its root."""
    return ".".join(module.split(".")[:2])


@every_row("package", PACKAGES_WITHOUT_CYCLES)
def test_a_package_has_no_import_cycles(package):
    assert import_cycles(import_graph([package])) == []


def test_the_packages_of_the_server_have_no_import_cycles():
    graph: dict[str, set[str]] = {}
    for module, imported in import_graph(["server"]).items():
        part = server_part(module)
        graph.setdefault(part, set()).update({server_part(name) for name in imported} - {part})
    assert import_cycles(graph) == []


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
        ("ampcore.spec, ampclient", {"tensorflow", "fastapi", "sqlalchemy", "celery"}),
        ("ampcore, ampcore.telemetry", {"tensorflow", "pyarrow"}),
        (
            "ampcore.api.jobs, ampcore.api.comparison, ampcore.api.tokens, ampcore.api.steps",
            {"tensorflow", "numpy", "fastapi", "sqlalchemy"},
        ),
        ("ampcore.preflight, ampcore.preflight.report_text", {"tensorflow", "keras", "numpy"}),
        ("ampcore.distributed.launcher, ampcore.commands.launch", {"tensorflow", "keras", "numpy"}),
        ("ampcore.checkpoint", {"tensorflow", "keras"}),
        ("ampcore.formats.file_description", {"tensorflow", "keras", "pyarrow", "PIL"}),
        ("ampcore.describe_untrusted_file", {"tensorflow", "numpy", "pyarrow", "pydantic"}),
        ("ampcore.formats.description", {"tensorflow", "keras", "pandas", "fastapi"}),
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
            "server.app, ampcore.telemetry.codec, server.telemetry.arrow",
            {"pandas", "pyarrow.parquet", "pyarrow.compute", "pyarrow.dataset"},
        ),
        (
            "service.settings, service.log_config, service.storage, service.celery_names",
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
