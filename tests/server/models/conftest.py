"""Fixtures of the tests of the model registry."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trained_jobs import TrainedJobs

MODELS = "/api/v1/registered-models"


@pytest.fixture
def trained_job(api: Any, make_job: Callable[..., Any], tmp_path: Path) -> TrainedJobs:
    """Creates jobs that have succeeded, with stored files."""
    return TrainedJobs(api, make_job, tmp_path / "files")


@pytest.fixture
def register(api: Any, trained_job: TrainedJobs) -> Callable[..., Any]:
    """Register a new trained job; returns the version."""

    def register(name: str = "digits", **options: Any) -> Any:
        body = {"job_id": trained_job(**options)}
        answer = api.client.post(f"{MODELS}/{name}/versions", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    return register
