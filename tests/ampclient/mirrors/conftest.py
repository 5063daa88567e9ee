"""Runs of a real API, and programs with MLflow and W&B."""

import os
import subprocess
import sys

import pytest

from tests import needs
from tests.ampclient.tracking.conftest import (  # noqa: F401 - fixtures
    _send_often,
    client,
    database_url,
    job_of,
    network,
    stored,
    track,
)
from tests.waiting import DEADLINE_S


@pytest.fixture
def run_program(api):
    """Runs Python code with MLflow and W&B in a process of its own; returns what it printed."""

    def run(code, *arguments, **variables):
        # What both installations have comes from that of the project.
        folders = [*sys.path, needs.packages_of_mirrors()]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(folder for folder in folders if folder),
            "AMPCORE_URL": api.url,
            "AMPCORE_TOKEN": api.token,
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    return run
