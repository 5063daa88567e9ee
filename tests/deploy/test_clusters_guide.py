"""The commands of docs/guides/clusters.md, with programs that connect to no cluster.

`helm upgrade` renders, and `kubectl create` prints what it would create. All other commands only
have to name what exists.
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.kubernetes_tools import ROOT, containers_of, find_program, pod_of
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.xdist_group("helm")

GUIDE: Final = ROOT / "docs/guides/clusters.md"
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HELM: Final = """#!/bin/sh
echo "helm $*" >> commands
if [ "$1 $2" = "upgrade --install" ]; then
    shift 2
    exec {helm} template "$@" > rendered.yaml
fi
"""
KUBECTL: Final = """#!/bin/sh
echo "kubectl $*" >> commands
case "$*" in
    *" token create "*) echo ampcore_a_token ;;
    *"create namespace "*|*"create secret "*)
        {kubectl} "$@" --dry-run=client --output=yaml >> created.yaml
        echo --- >> created.yaml ;;
esac
"""
PRINT: Final = """#!/bin/sh
echo "{name} $*" >> commands
"""
INSTALLATIONS: Final = {
    "trial.yaml": ["# Once: the namespace and its Secret", "# The release"],
    "service.yaml": [
        "# Once: the Secrets of a service",
        "# The release of a service",
        "# Once the servers run",
    ],
}
"""The files of values in the guide, and the blocks that install a release with them."""
MADE_BY_OTHERS: Final = {"train-example-org"}
"""Secrets that the guide says somebody else creates."""


def blocks() -> dict[str, str]:
    """The blocks of the guide by their first lines."""
    texts = [text for _, text in BLOCK.findall(GUIDE.read_text(encoding="utf-8"))]
    return {text.partition("\n")[0]: text for text in texts}


@dataclass(frozen=True)
class Installation:
    """What the blocks about a file of values have done."""

    rendered: list[dict[str, Any]]
    """The manifests of the release."""
    created: list[dict[str, Any]]
    """What kubectl would have created."""
    commands: list[str]


def documents_in(file: Path) -> list[dict[str, Any]]:
    loaded = yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return [document for document in loaded if document]


def install(folder: Path, values: str) -> Installation:
    """Run the blocks for a file of values, in a folder like a clone."""
    programs = folder / "bin"
    programs.mkdir()
    scripts = {
        "helm": HELM.format(helm=find_program("helm")),
        "kubectl": KUBECTL.format(kubectl=find_program("kubectl")),
        **{name: PRINT.format(name=name) for name in ("docker", "ampctl")},
    }
    for name, script in scripts.items():
        (programs / name).write_text(script, encoding="utf-8")
        (programs / name).chmod(0o755)
    (folder / "deploy").symlink_to(ROOT / "deploy")
    (folder / values).write_text(blocks()[f"# {values}"], encoding="utf-8")
    for first_line in INSTALLATIONS[values]:
        run_block(folder, first_line)
    return Installation(
        documents_in(folder / "rendered.yaml"),
        documents_in(folder / "created.yaml"),
        (folder / "commands").read_text(encoding="utf-8").splitlines(),
    )


def run_block(folder: Path, first_line: str) -> None:
    """Run a block of the guide as written; it must succeed."""
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", blocks()[first_line]],
        cwd=folder,
        env={
            "PATH": f"{folder}/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": "/dev/null",
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, f"{first_line}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module", params=INSTALLATIONS)
def installation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    return install(tmp_path_factory.mktemp("clone"), request.param)


def keys_of_secrets(rendered: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The name and key of every Secret that a container reads."""
    for manifest in rendered:
        if (pod := pod_of(manifest)) is not None:
            for container in containers_of(pod):
                for variable in container.get("env", []):
                    if "valueFrom" in variable and "secretKeyRef" in variable["valueFrom"]:
                        reference = variable["valueFrom"]["secretKeyRef"]
                        yield reference["name"], reference["key"]


def test_the_guide_creates_every_secret_that_the_release_reads(installation: Installation) -> None:
    created = {
        (document["metadata"]["name"], key)
        for document in installation.created
        if document["kind"] == "Secret"
        for key in document["data"]
    }
    assert set(keys_of_secrets(installation.rendered)) <= created
    certificates = {
        tls["secretName"]
        for document in installation.rendered
        if document["kind"] == "Ingress"
        for tls in document["spec"]["tls"]
    }
    assert certificates <= MADE_BY_OTHERS
    namespaces = {document["metadata"].get("namespace") for document in installation.created}
    assert namespaces <= {None, "ampcore"}  # None: the namespace itself


def test_the_urls_of_the_guide_name_the_hosts_of_the_built_in_databases(tmp_path: Path) -> None:
    trial = install(tmp_path, "trial.yaml")
    services = {
        document["metadata"]["name"] for document in trial.rendered if document["kind"] == "Service"
    }
    hosts = re.findall(r"@([a-z-]+):\d+/", blocks()["# Once: the namespace and its Secret"])
    assert set(hosts) == {"ampcore-postgresql", "ampcore-redis"}
    assert set(hosts) <= services


def test_commands_about_objects_name_those_of_the_release(installation: Installation) -> None:
    names = {
        (document["kind"].lower(), document["metadata"]["name"])
        for document in installation.rendered
    }
    commands = [command for command in installation.commands if command.startswith("kubectl ")]
    named = re.findall(r"\b(deploy|service|job)/([a-z-]+)", "\n".join(commands))
    assert named
    for kind, name in named:
        assert ({"deploy": "deployment"}.get(kind, kind), name) in names


def test_commands_in_the_text_name_objects_of_the_release(tmp_path: Path) -> None:
    service = install(tmp_path, "service.yaml")
    prose = BLOCK.sub("", GUIDE.read_text(encoding="utf-8"))
    assert re.findall(r"job/([a-z-]+)", prose) == ["ampcore-migrate"]
    jobs = [document for document in service.rendered if document["kind"] == "Job"]
    assert [job["metadata"]["name"] for job in jobs] == ["ampcore-migrate"]
    port_forward = blocks()["# In a terminal of its own"]
    [port] = re.findall(r"service/ampcore-api 8470:(\d+)", port_forward)
    [api] = [
        document
        for document in service.rendered
        if (document["kind"], document["metadata"]["name"]) == ("Service", "ampcore-api")
    ]
    assert api["spec"]["ports"][0]["port"] == int(port)


def test_a_release_that_is_stopped_has_no_pods_but_still_migrates(tmp_path: Path) -> None:
    install(tmp_path, "service.yaml")
    run_block(tmp_path, "# Only for a migration that needs a stop")
    rendered = documents_in(tmp_path / "rendered.yaml")
    replicas = [
        document["spec"]["replicas"] for document in rendered if document["kind"] == "Deployment"
    ]
    assert replicas == [0, 0, 0]
    assert any(document["kind"] == "Job" for document in rendered)
    [minutes] = re.findall(
        r"--timeout=(\d+)m", blocks()["# Only for a migration that needs a stop"]
    )
    grace_s = max(
        document["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for document in rendered
        if document["kind"] == "Deployment"
    )
    assert int(minutes) * 60 > grace_s
    selector = {"app.kubernetes.io/component": "worker"}
    selected = [
        document["metadata"]["name"]
        for document in rendered
        if (pod := pod_of(document)) and selector.items() <= pod["metadata"]["labels"].items()
    ]
    assert selected == ["ampcore-worker-cpu", "ampcore-worker-gpu"]


def test_helm_waits_as_long_as_the_migration_may_take(tmp_path: Path) -> None:
    service = install(tmp_path, "service.yaml")
    [minutes] = re.findall(r"--timeout (\d+)m", "\n".join(service.commands))
    [deadline_s] = [
        document["spec"]["activeDeadlineSeconds"]
        for document in service.rendered
        if document["kind"] == "Job"
    ]
    assert int(minutes) * 60 > deadline_s


def test_the_images_that_the_guide_builds_are_those_that_the_values_name(tmp_path: Path) -> None:
    text = next(text for first, text in blocks().items() if first.startswith("docker build"))
    built = set(re.findall(r"--tag (\S+)", text))
    assert built == set(re.findall(r"docker push (\S+)", text))
    assert all((ROOT / name).is_file() for name in re.findall(r"--file (\S+)", text))
    service = install(tmp_path, "service.yaml")
    used = {
        container["image"]
        for manifest in service.rendered
        if (pod := pod_of(manifest)) is not None
        for container in containers_of(pod)
    }
    assert used == built


def test_the_guide_names_the_versions_that_are_checked() -> None:
    from tests.deploy.test_helm_chart import KUBERNETES_VERSIONS, VALUES

    text = " ".join(GUIDE.read_text(encoding="utf-8").split())
    first, second, third = KUBERNETES_VERSIONS
    assert f"Kubernetes {first}, {second} and {third}" in text
    assert "ten sets of values" in text
    assert len(VALUES) == 10
