"""The commands of docs/guides/deploy.md, in their order, in a new clone without a setting.

And the workers of docs/guides/operating.md that run code of users.
"""

import re

import numpy as np
import pytest

from tests.containers.compose import ROOT, Project, copy_of_the_working_tree
from tests.containers.jobs import DIGITS

GUIDE = (ROOT / "docs/guides/deploy.md").read_text()


def written(start: str) -> str:
    """The command of the guide that starts like this, with all of its lines."""
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    commands = [c for block in blocks for c in re.split(r"(?<!\\)\n", block)]
    found = [command for command in commands if command.startswith(start)]
    found += [command for command in re.findall(r"`([^`\n]+)`", GUIDE) if command.startswith(start)]
    return str(found[0])


@pytest.fixture(scope="module")
def project(images, machines, tmp_path_factory):
    """A clone in which the guide is followed: with its own passwords, and all defaults."""
    folder = copy_of_the_working_tree(tmp_path_factory.mktemp("guide"))
    project = Project(images.podman.on(machines["stack"]), "guide", folder, {})
    (folder / ".env").unlink()
    yield project
    project.down(volumes=True)


def test_the_guide_on_deployment_works_as_written(project, images, tmp_path):
    project.shell(written("(umask 077; printf"))
    settings = (project.folder / ".env").read_text()
    assert re.fullmatch(
        "AMPCORE_POSTGRES_PASSWORD=[0-9a-f]{48}\nAMPCORE_REDIS_PASSWORD=[0-9a-f]{48}\n", settings
    )
    assert (project.folder / ".env").stat().st_mode & 0o777 == 0o600

    project.use_images_of(images)
    project.shell(written("docker compose up --build --detach").replace("--build ", ""))
    project.wait_until_healthy()
    said = project.shell(written("docker compose exec server ampserver token create"))
    token = re.findall(r"amp_\S+", said)[-1]

    export = written("export AMPCORE_URL=").replace("…", token)
    ampctl = f"{export}; {{}}".format
    assert "online" in project.shell(ampctl(written("ampctl worker list")))
    said = project.shell(ampctl(written("ampctl submit examples/digits-float16.yaml --watch")))
    assert "succeeded" in said
    assert "amp_" in project.shell(ampctl(written("ampctl token create bob")))

    digits = np.random.default_rng(0).random((640, 784), np.float32)
    np.savez(project.folder / "mnist.npz", x_train=digits, y_train=np.arange(640) % 10)
    project.shell(written("docker compose exec -T worker sh -c 'cat >"))
    spec = {**DIGITS, "data": {"kind": "npz", "path": "mnist.npz", "batch_size": 32}}
    (project.folder / "job.yaml").write_text(str(spec))
    assert "succeeded" in project.shell(ampctl("ampctl submit job.yaml --watch"))

    project.shell(written("docker compose run --rm --no-deps server cat"))
    assert '"CycloneDX"' in (project.folder / "sbom.cdx.json").read_text()
    assert '"ready"' in project.shell(written("curl http://127.0.0.1:8470/readyz"))
    logs = written("docker compose logs --follow server worker").replace("--follow ", "")
    assert '"level"' in project.shell(logs)

    project.shell(written("docker compose stop worker"))
    assert [worker.running for worker in project.containers("worker")] == [False]
    project.shell(written("docker compose up --detach"))
    assert [worker.running for worker in project.containers("worker")] == [True]
    project.shell(written("docker compose down"))
    assert not project.containers()


@pytest.fixture
def new_service(new_project):
    """A service with its settings that has not been started."""
    project = new_project("code")
    yield project
    project.down(volumes=True)


def test_workers_with_the_rights_of_the_guide_run_code_of_users(new_service):
    project, guide = new_service, (ROOT / "docs/guides/operating.md").read_text()
    (override,) = re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (project.folder / "bundles.yml").write_text(override)
    (files,) = re.findall(r"`docker compose -f (\S+) -f (bundles.yml) up`", guide)
    # podman 4.3 needs an option of `up` that only `Project.up` gives.
    project.settings["COMPOSE_FILE"] = ":".join(files)
    project.write_settings()
    project.up()
    created = ["ampserver", "token", "create", "carol", "--scope=jobs:run-code"]
    token = re.findall(r"amp_\S+", project.container("server").execute(*created))[-1]
    export = written("export AMPCORE_URL=").replace("…", token)
    submit = "ampctl dataset upload points.npz && ampctl submit job.yaml --code code --watch"
    said = project.shell(f"{export}; cd examples/bundle && python make_data.py && {submit}")
    assert "succeeded" in said
    said = project.shell(f"{export}; ampctl worker list --json")
    assert re.search(r'"sandbox": \{[^}]*"kind": "landlock"', said), said
