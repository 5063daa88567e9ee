"""The modules that importing the client loads, measured in a new process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import DEADLINE_S

SERVER_SIDE = {"tensorflow", "keras", "fastapi", "sqlalchemy", "celery"}
SLOW = {"asyncio", "httpx", "numpy", "pandas", "pyarrow", "rich", "typer"}


def modules_after(program: str) -> set[str]:
    return {name.partition(".")[0] for name in full_names_after(program)}


def full_names_after(program: str) -> set[str]:
    code = f"{program}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("program", ["import ampclient", "from ampclient import Client, JobSpec"])
def test_importing_the_client_loads_no_server_side_or_slow_library(program):
    assert not modules_after(program) & (SERVER_SIDE | SLOW)


def test_the_sections_of_a_spec_are_loaded_when_one_is_used():
    """Fails if a module of the client imports JobSpec, which takes a third of the time."""
    assert "ampspec.jobs.job" not in full_names_after("from ampclient import Client")
    assert "ampspec.jobs.job" in full_names_after("from ampclient import JobSpec")


def test_importing_the_command_line_loads_no_slow_library_but_typer_and_rich():
    loaded = modules_after("import ampclient.cli")
    assert not loaded & (SERVER_SIDE | SLOW - {"typer", "rich"})


def test_importing_every_public_name_loads_no_server_side_library():
    loaded = modules_after("from ampclient import *\nfrom ampclient import cli, progress")
    assert not loaded & (SERVER_SIDE | {"pyarrow", "pandas"})
