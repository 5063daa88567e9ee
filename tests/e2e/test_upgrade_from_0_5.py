"""A data folder of version 0.5 opens: same responses, same token, and a paused job resumes."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ampclient import Client
from tests.e2e.conftest import Stack, start_stack
from tests.waiting import DEADLINE_S

STORED = Path(__file__).parent / "data" / "version-0.5.zip"
MOVED_TO_FIELDS_PARAMETER = "spec"
"""Version 0.5 listed jobs with their specs; now only `GET /jobs?fields=spec` does."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("version-0.5")
    with zipfile.ZipFile(STORED) as stored:
        stored.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def recorded(folder: Path) -> dict[str, Any]:
    """The responses of version 0.5, by path."""
    responses: dict[str, Any] = json.loads((folder / "answers.json").read_text())
    for job in responses["/jobs"]["items"]:
        del job[MOVED_TO_FIELDS_PARAMETER]
        for artifact in responses[f"/jobs/{job['id']}/artifacts"]["items"]:
            if artifact["step"] is not None:
                artifact["step"] += 1  # the last step's index then, the number of steps now
    return responses


@pytest.fixture(scope="module")
def upgraded(folder: Path) -> Iterator[Stack]:
    stack = start_stack(folder / "data")
    yield stack
    assert stack.stop() == 0


def test_every_response_of_0_5_is_unchanged(upgraded, recorded):
    token = (upgraded.data / "token").read_text().strip()
    connection = json.loads((upgraded.data / "connection.json").read_text())
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(
        base_url=f"{connection['url']}/api/v1", headers=headers, timeout=DEADLINE_S
    ) as http:
        for path, before in recorded.items():
            response = http.get(path)
            assert response.status_code == 200, response.text
            assert _without_new_fields(response.json(), before) == before, path


def test_a_job_paused_in_0_5_resumes_as_if_it_had_never_been_paused(upgraded, recorded):
    client: Client = upgraded.client
    paused, undisturbed = (_id_of(recorded, name) for name in ("paused", "not paused"))
    client.jobs.get(paused).resume()
    assert client.jobs.get(paused).wait(DEADLINE_S).state == "succeeded"

    steps = client.jobs.get(paused).steps(columns=["loss_scale", "skipped", "loss"])
    expected = recorded[f"/jobs/{undisturbed}/steps"]["data"]
    assert steps["step"].tolist() == expected["step"]
    assert steps["loss_scale"].tolist() == expected["loss_scale"]
    assert steps["skipped"].tolist() == expected["skipped"]
    assert steps["loss"].tolist() == pytest.approx(expected["loss"], rel=1e-5)


def _id_of(recorded: dict[str, Any], name: str) -> str:
    (found,) = (job["id"] for job in recorded["/jobs"]["items"] if job["name"] == name)
    return str(found)


def _without_new_fields(after: Any, before: Any) -> Any:
    """`after` with only those fields that `before` has too: later versions may add fields."""
    if isinstance(after, dict) and isinstance(before, dict):
        return {
            key: _without_new_fields(value, before[key])
            for key, value in after.items()
            if key in before
        }
    if isinstance(after, list) and isinstance(before, list) and len(after) == len(before):
        return [_without_new_fields(*pair) for pair in zip(after, before, strict=True)]
    return after
