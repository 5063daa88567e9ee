"""helm and kubectl, and the manifests that helm makes of the chart, without a cluster."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.waiting import DEADLINE_S

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy/helm/ampcore"
VALUES: Final = tuple(sorted((Path(__file__).parent / "values").glob("*.yaml")))
"""Sets of values with which a release can be installed."""
INSTALL: Final = "sh tests/deploy/install_helm.sh"
RELEASE: Final = "ampcore"
NAMESPACE: Final = "trainers"

Manifest = dict[str, Any]
Completed = subprocess.CompletedProcess[str]


def folder() -> Path:
    """Where install_helm.sh puts the programs."""
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_folder) / "ampcore" / "kubernetes-tools"


def find_program(name: str) -> str | None:
    """The path of helm or kubectl: the one that the script installed, else the machine's."""
    return shutil.which(name, path=f"{folder()}{os.pathsep}{os.environ.get('PATH', '')}")


def run(name: str, *arguments: str | Path, text: str | None = None, cwd: Path = ROOT) -> Completed:
    """Run helm or kubectl with a text as its standard input; it finds no cluster."""
    program = find_program(name)
    assert program is not None, INSTALL
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": os.devnull}
    return subprocess.run(
        [program, *map(str, arguments)], input=text, env=environment, cwd=cwd,
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip


@cache
def render(values: Path) -> str:
    """The manifests of a release with these values. Raises AssertionError with helm's message."""
    command = ("template", RELEASE, CHART, f"--namespace={NAMESPACE}", f"--values={values}")
    rendered = run("helm", *command)
    assert rendered.returncode == 0, rendered.stderr
    return rendered.stdout


@cache
def manifests(values: Path) -> list[Manifest]:
    """The same as documents, which all tests share: change a copy."""
    documents = yaml.load_all(render(values), Loader=yaml.CSafeLoader)
    return [document for document in documents if document]


def refusal(values: Path, *options: str) -> str:
    """The message with which helm refuses values. Raises AssertionError if it accepts them."""
    rendered = run("helm", "template", RELEASE, CHART, f"--values={values}", *options)
    assert rendered.returncode != 0, f"accepted: {options}"
    return rendered.stderr


def pod_of(manifest: Manifest) -> Manifest | None:
    """The pod that a manifest describes: its metadata and spec; None for other kinds."""
    if manifest["kind"] == "Pod":
        return manifest
    template = manifest["spec"].get("template") if "spec" in manifest else None
    return template if isinstance(template, dict) and "spec" in template else None


def pods(values: Path) -> Iterator[tuple[str, Manifest]]:
    """The pods of a release, each with its kind and name."""
    for manifest in manifests(values):
        if (pod := pod_of(manifest)) is not None:
            yield f"{manifest['kind']}/{manifest['metadata']['name']}", pod


def containers_of(pod: Manifest) -> list[Manifest]:
    """The containers of a pod, those for its initialization, too."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def find(documents: list[Manifest], kind: str, name: str) -> Manifest:
    """The only document of this kind and name."""
    [document] = [
        document
        for document in documents
        if (document["kind"], document["metadata"]["name"]) == (kind, name)
    ]
    return document
