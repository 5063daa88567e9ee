"""Backup and restore with the commands of docs/guides/operating.md."""

import re

import pytest

from ampclient import Client
from tests.containers.compose import ROOT, Project
from tests.containers.conftest import create_token
from tests.containers.jobs import DIGITS, ENDLESS, has_step
from tests.machines import working_on
from tests.waiting import wait_until

GUIDE = ROOT / "docs/guides/operating.md"
URL = "http://127.0.0.1:8473"

WITH_ONE_CHECKPOINT = {**ENDLESS, "train": {**ENDLESS["train"], "checkpoint_every_s": 3600}}
"""The only checkpoint is the one of the pause: none is deleted between the two commands."""


def commands_after(heading: str) -> list[str]:
    """The commands of the first block of shell commands after a heading of the guide."""
    text = GUIDE.read_text().partition(f"\n{heading}\n")[2]
    block = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    return str(block).replace("\\\n", "").splitlines()


@pytest.fixture(scope="module")
def project(new_project, machines):
    settings = {"AMPCORE_PORT": "8473", "AMPCORE_FRONT_SUBNET": "172.31.243.0/24"}
    project = new_project("backup", AMPCORE_SERVERS="1", **settings)
    project.up()
    with working_on(machines["stack"]):
        yield project
    project.down(volumes=True)


def test_a_restored_service_has_every_job_and_resumes_those_that_ran(project, tmp_path):
    token = create_token(project.container("server"), "dave")
    with Client(URL, token) as client:
        finished = client.jobs.submit(DIGITS).wait()
        files = {path.name: path.read_bytes() for path in finished.download(to=tmp_path / "1")}
        steps = finished.steps()
        running = client.jobs.submit(WITH_ONE_CHECKPOINT)
        wait_until(lambda: has_step(running, 100))
        running.pause()
        wait_until(lambda: running.refresh().state == "paused")
        resumed_at = running.refresh().step
        running.resume()
        wait_until(lambda: has_step(running, resumed_at + 100))

    run_as_written(project, commands_after("### Backup with Docker Compose"))
    project.down(volumes=True)
    run_as_written(project, commands_after("### Restore with Docker Compose"))
    project.wait_until_healthy()

    with Client(URL, token) as client:
        restored = client.jobs.get(finished.id)
        assert restored.steps() == steps
        downloaded = restored.download(to=tmp_path / "2")
        assert {path.name: path.read_bytes() for path in downloaded} == files
        running = client.jobs.get(running.id)
        wait_until(lambda: len(running.attempts()) == 3 and running.refresh().state == "running")
        assert running.attempts()[-1].first_step == resumed_at
        running.cancel().wait()


def run_as_written(project: Project, commands: list[str]) -> None:
    """Run commands of the guide in the folder of the project."""
    for command in commands:
        project.shell(command)
