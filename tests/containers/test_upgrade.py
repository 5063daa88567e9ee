"""From the images of version 0.5 to today's, as docs/guides/operating.md says, while jobs run."""

import shutil

import httpx
import numpy as np
import pytest

from ampclient import Client
from tests.containers.compose import Project, copy_of_the_working_tree, export_commit
from tests.containers.conftest import LEASE_S, PASSWORDS, create_token
from tests.containers.jobs import DIGITS, ENDLESS
from tests.machines import working_on
from tests.waiting import DEADLINE_S, wait_until

VERSION_0_5 = "ea4cf732c596f418afef77916ce427746e7b380f"
URL = "http://127.0.0.1:8472"
SETTINGS = {
    **PASSWORDS,
    "AMPCORE_LEASE_S": LEASE_S,
    "AMPCORE_PORT": "8472",
    "AMPCORE_FRONT_SUBNET": "172.31.242.0/24",
    "AMPCORE_WORKERS": "2",
}


@pytest.fixture(scope="module")
def version_0_5(images, machines, tmp_path_factory):
    """The stack of version 0.5, from its own Dockerfiles and Compose file."""
    folder = export_commit(VERSION_0_5, tmp_path_factory.mktemp("version-0.5") / "ampcore")
    Project(images.podman, "upgrade", folder, SETTINGS).build()
    project = Project(images.podman.on(machines["stack"]), "upgrade", folder, SETTINGS)
    # Its migration does not wait by itself.
    project.compose("up", "--detach", "--no-deps", "postgres", "redis")
    wait_until(lambda: all(c.healthy() for c in project.containers()))
    project.compose("up", "--detach", "--no-deps", "--scale=server=2", "--scale=worker=2")
    project.wait_until_healthy()
    with working_on(machines["stack"]):
        yield project
    project.down(volumes=True)


def test_jobs_of_0_5_go_on_after_the_upgrade(version_0_5, images):
    project = version_0_5
    token = create_token(project.container("server"), "carol")
    api = httpx.Client(
        base_url=f"{URL}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=DEADLINE_S
    )
    with api:
        finished, running, queued = (
            api.post("/jobs", json=spec).raise_for_status().json()["id"]
            for spec in (DIGITS, ENDLESS, ENDLESS)
        )
        wait_until(lambda: api.get(f"/jobs/{finished}").json()["state"] == "succeeded")
        wait_until(lambda: (api.get(f"/jobs/{running}").json()["step"] or 0) > 100)
        before = api.get(f"/jobs/{finished}/steps?columns=loss,loss_scale").json()["data"]
        before = {name: np.float32(values).tolist() for name, values in before.items()}

    # The migration renames columns, so nothing of the old version may run.
    project.down()
    settings = (project.folder / ".env").read_text()
    shutil.rmtree(project.folder)
    copy_of_the_working_tree(project.folder)
    (project.folder / ".env").write_text(settings)
    project.use_images_of(images)
    project.up()

    with Client(URL, token) as client:
        for job_id in (running, queued):
            job = client.jobs.get(job_id)
            wait_until(lambda job=job: job.refresh().state == "running")
            known = job.refresh().step
            wait_until(lambda job=job, known=known: job.refresh().step > known)
            job.cancel().wait()
        resumed = client.jobs.get(running).attempts()
        assert [attempt.attempt for attempt in resumed] == [1, 2]
        assert resumed[1].first_step > 0
        steps = client.jobs.get(finished).steps(columns=["loss", "loss_scale"])
        assert steps["loss"].tolist() == before["loss"]
        assert steps["loss_scale"].tolist() == before["loss_scale"]
        assert (np.diff(client.jobs.get(running).steps(columns=["loss"])["step"]) == 1).all()
