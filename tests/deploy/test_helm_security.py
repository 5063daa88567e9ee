"""What the pods of the Helm chart may do, and who may connect to them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.kubernetes_tools import (
    CHART,
    ROOT,
    VALUES,
    Manifest,
    containers_of,
    find,
    manifests,
    pods,
    render,
)
from tests.tables import every_row

pytestmark = pytest.mark.xdist_group("helm")

SETS: Final = {path.stem: path for path in VALUES}


def check_pod(pod: Manifest) -> Iterator[str]:
    """What a pod lacks of the restricted profile of Kubernetes, and of more than that."""
    spec, security = pod["spec"], pod["spec"].get("securityContext", {})
    rules = {
        "a token for the Kubernetes API": spec.get("automountServiceAccountToken") is False,
        "variables of Services": spec.get("enableServiceLinks") is False,
        "root": security.get("runAsNonRoot") is True and security.get("runAsUser", 0) > 0,
        "the root group": security.get("runAsGroup", 0) > 0,
        "system calls without a filter": security.get("seccompProfile")
        == {"type": "RuntimeDefault"},
        "the node's namespaces": not any(spec.get(name) for name in ("hostNetwork", "hostPID")),
        "folders of the node": not any("hostPath" in volume for volume in spec.get("volumes", [])),
        "memory or disk without a limit": all(
            "sizeLimit" in volume["emptyDir"]
            for volume in spec.get("volumes", [])
            if "emptyDir" in volume
        ),
    }
    yield from (name for name, is_met in rules.items() if not is_met)
    for container in containers_of(pod):
        yield from (f"{container['name']}: {problem}" for problem in check_container(container))


def check_container(container: Manifest) -> Iterator[str]:
    security, resources = container["securityContext"], container["resources"]
    rules = {
        "a root file system that is written": security.get("readOnlyRootFilesystem") is True,
        "more privileges": security.get("allowPrivilegeEscalation") is False,
        "all privileges": security.get("privileged") is False,
        "capabilities": security.get("capabilities") == {"drop": ["ALL"]},
        "another user": "runAsUser" not in security and "runAsNonRoot" not in security,
        "resources without limits": {"cpu", "memory"} <= set(resources.get("limits", {})),
        "no requests": {"cpu", "memory"} <= set(resources.get("requests", {})),
        "an image without a version": re.search(r":[\w.-]+$|@sha256:", container["image"])
        is not None
        and not container["image"].endswith(":latest"),
    }
    yield from (name for name, is_met in rules.items() if not is_met)


@every_row("values", VALUES)
def test_no_pod_has_privileges(values: Path) -> None:
    problems = {owner: [*check_pod(pod)] for owner, pod in pods(values)}
    assert problems
    for owner, lacking in problems.items():
        is_scheduler = owner.endswith("-scheduler")
        assert lacking == (["a token for the Kubernetes API"] if is_scheduler else []), owner


def test_the_check_sees_what_is_missing() -> None:
    pod: dict[str, Any] = {
        "spec": {
            "volumes": [{"hostPath": {"path": "/"}}, {"emptyDir": {}}],
            "hostPID": True,
            "containers": [
                {"name": "x", "image": "x", "securityContext": {"runAsUser": 0}, "resources": {}}
            ],
        }
    }
    assert len([*check_pod(pod)]) == 16


def test_our_images_run_as_the_user_that_they_create() -> None:
    for name in ("server", "worker"):
        dockerfile = (ROOT / f"docker/{name}.Dockerfile").read_text(encoding="utf-8")
        [user] = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
        for owner, pod in pods(SETS["object-store"]):
            security = pod["spec"]["securityContext"]
            ids = (str(security["runAsUser"]), str(security["runAsGroup"]))
            assert ids == user, owner


@every_row("values", VALUES)
def test_secrets_are_only_named(values: Path) -> None:
    assert not any(document["kind"] == "Secret" for document in manifests(values))
    secret = re.compile(r"PASSWORD|SECRET|TOKEN(?!_S$)|ACCESS_KEY|DATABASE_URL|REDIS_URL|AUTH$")
    for _, pod in pods(values):
        for container in containers_of(pod):
            for variable in container.get("env", []):
                if secret.search(variable["name"]):
                    assert set(variable["valueFrom"]) == {"secretKeyRef"}


def test_no_default_is_a_password_and_no_image_has_a_registry() -> None:
    text = "".join(
        path.read_text(encoding="utf-8") for path in sorted(CHART.rglob("*")) if path.is_file()
    )
    assert not re.search(r"(?i)password: *['\"]?\w", text)
    assert not re.search(r"repository: *[\w.-]+\.\w+/", text)


# Network policies.


def policy(values: str, name: str) -> Manifest:
    spec: Manifest = find(manifests(SETS[values]), "NetworkPolicy", name)["spec"]
    return spec


def components(peers: list[Manifest]) -> set[str]:
    """The components of the release that a list of peers names."""
    return {
        peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for peer in peers
        if peer.get("podSelector", {}).get("matchLabels")
    }


@every_row("values", [path for path in VALUES if path.stem != "api-only"])
def test_every_pod_has_a_policy_for_incoming_connections(values: Path) -> None:
    selectors = [
        document["spec"]["podSelector"]["matchLabels"]
        for document in manifests(values)
        if document["kind"] == "NetworkPolicy" and "Ingress" in document["spec"]["policyTypes"]
    ]
    for owner, pod in pods(values):
        labels = pod["metadata"]["labels"]
        if not owner.startswith("Pod/"):  # that of `helm test`, which only asks
            assert any(selector.items() <= labels.items() for selector in selectors), owner


def test_the_api_accepts_connections_of_ingress_and_monitoring_only() -> None:
    [rule] = policy("object-store", "ampcore-api")["ingress"]
    assert rule["ports"] == [{"port": "http", "protocol": "TCP"}]
    namespaces = [
        peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for peer in rule["from"]
        if "namespaceSelector" in peer
    ]
    assert namespaces == ["ingress-nginx", "monitoring"]
    assert components(rule["from"]) == {"test"}
    assert len(rule["from"]) == 3


def test_workers_accept_connections_of_other_ranks_only() -> None:
    [rule] = policy("gpu", "ampcore-worker-cpu")["ingress"]
    assert components(rule["from"]) == {"worker"}
    assert len(rule["from"]) == 1
    assert rule["ports"] == [{"port": 42000, "endPort": 42031, "protocol": "TCP"}]
    environment = {
        variable["name"]: variable.get("value")
        for variable in dict(pods(SETS["gpu"]))["Deployment/ampcore-worker-cpu"]["spec"][
            "containers"
        ][0]["env"]
    }
    assert environment["AMPCORE_WORKER_PORTS"] == "42000-42031"
    [with_gpus] = policy("gpu", "ampcore-worker-gpu")["ingress"]
    assert with_gpus["from"] == rule["from"]
    assert with_gpus["ports"] == [{"port": 1024, "endPort": 65535, "protocol": "TCP"}]  # NCCL


def test_the_migration_accepts_no_connections() -> None:
    assert "ingress" not in policy("object-store", "ampcore-migrate")


def test_the_built_in_databases_accept_connections_of_servers_and_workers_only() -> None:
    for name, port in (("postgresql", 5432), ("redis", 6379)):
        spec = policy("trial", f"ampcore-{name}")
        [rule] = spec["ingress"]
        assert components(rule["from"]) == {"api", "worker"}
        assert [entry["port"] for entry in rule["ports"]] == [port]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert "egress" not in spec  # it connects to nothing


def test_outgoing_connections_are_restricted_where_the_values_say_so() -> None:
    assert policy("object-store", "ampcore-api")["policyTypes"] == ["Ingress"]
    for name in ("api", "worker-cpu", "migrate"):
        spec = policy("cloud-role", f"ampcore-{name}")
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        ports = {entry["port"] for rule in spec["egress"] for entry in rule.get("ports", [])}
        assert ports == {53, 5432, 6379, 443}
    prefix = "ampcore-with-a-name-of-forty-characters1"
    peers = [
        peer for rule in policy("everything", f"{prefix}-worker-cpu")["egress"]
        for peer in rule.get("to", [])
    ]  # fmt: skip
    assert components(peers) == {"worker", "postgresql", "redis"}


def test_the_ingress_always_has_tls() -> None:
    ingress = find(manifests(SETS["ingress"]), "Ingress", "ampcore")["spec"]
    assert ingress["tls"] == [{"hosts": ["train.example.org"], "secretName": "train-example-org"}]
    assert [rule["host"] for rule in ingress["rules"]] == ["train.example.org"]


def test_nothing_asks_for_rights_in_the_cluster() -> None:
    for values in VALUES:
        assert not re.search(r"^kind: ClusterRole(Binding)?$", render(values), re.MULTILINE)
        roles = [document for document in manifests(values) if document["kind"] == "Role"]
        assert all(role["metadata"]["name"].endswith("-scheduler") for role in roles)
