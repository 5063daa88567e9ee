"""The scheduler of the Helm chart: its settings, the pods that it creates, and its few rights."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

from server.allocations.batch_system import AllocationRequest
from server.allocations.kubernetes_manifests import manifest_of
from server.allocations.kubernetes_settings import KubernetesSettings, read_kubernetes_settings
from server.cli.app import app as ampserver
from tests.deploy.kubernetes_tools import (
    CHART,
    NAMESPACE,
    RELEASE,
    VALUES,
    Manifest,
    containers_of,
    find,
    manifests,
    pods,
    refusal,
    render,
    run,
)
from tests.deploy.test_clusters_guide import blocks
from tests.deploy.test_helm_chart import POD_IP, variables_of
from tests.deploy.test_helm_security import check_pod
from tests.environment import settings_from
from tests.kubernetes_api import check_job_set, check_manifest
from tests.tables import every_row
from worker.settings import WorkerSettings

pytestmark = pytest.mark.xdist_group("helm")

SETS: Final = {path.stem: path for path in VALUES}
PREFIXES: Final = {"gpu": "ampcore", "everything": "ampcore-with-a-name-of-forty-characters1"}
"""The sets of values with a scheduler, and how the names of their objects begin."""


def object_of(values: str, kind: str) -> Manifest:
    """The object of the scheduler of this kind."""
    return find(manifests(SETS[values]), kind, f"{PREFIXES[values]}-scheduler")


def settings_of(values: str, folder: Path) -> KubernetesSettings:
    """What the scheduler reads from its ConfigMap."""
    [(name, text)] = object_of(values, "ConfigMap")["data"].items()
    (folder / name).write_text(text, encoding="utf-8")
    return read_kubernetes_settings(folder / name)


def documents_of(settings: KubernetesSettings) -> dict[tuple[str, int], Any]:
    """What the scheduler creates, by queue and number of nodes."""
    return {
        (name, nodes): manifest_of(
            AllocationRequest("ampcore-0123456789ab-1-1", "0123456789ab", name, nodes, 2, 600.0),
            queue,
            keep_ended_s=settings.keep_ended_s,
        )[1]
        for name, queue in settings.queues.items()
        for nodes in (1, 2)
    }


def pod_in(document: Any) -> Any:
    """The pod of a Job, or of the Job of a JobSet."""
    if document["kind"] == "JobSet":
        document = document["spec"]["replicatedJobs"][0]["template"]
    return document["spec"]["template"]


@pytest.mark.parametrize("values", PREFIXES)
def test_the_scheduler_reads_its_settings(values: str, tmp_path: Path) -> None:
    settings = settings_of(values, tmp_path)
    assert settings.namespace == NAMESPACE
    assert all(queue.image for queue in settings.queues.values())
    [container] = containers_of(object_of(values, "Deployment")["spec"]["template"])
    *_, file = container["command"]
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "settings"]
    assert file == f"{mount['mountPath']}/kubernetes.yaml"
    assert (
        settings.queues.keys()
        == {"gpu": {"gpu-jobs", "batch"}, "everything": {"gpu", "code"}}[values]
    )


@pytest.mark.parametrize("values", PREFIXES)
def test_what_it_creates_is_valid_and_has_no_privileges(values: str, tmp_path: Path) -> None:
    for (queue, nodes), document in documents_of(settings_of(values, tmp_path)).items():
        check = check_job_set if nodes > 1 else check_manifest
        for version in ("1.29", "1.33", "1.37"):
            check(document, version)
        if queue != "code":
            assert [*check_pod(pod_in(document))] == [], queue


@pytest.mark.parametrize("values", PREFIXES)
def test_its_pods_have_the_variables_and_files_of_the_workers(values: str, tmp_path: Path) -> None:
    # The lease and the like differ by no digit: both come from the same values.
    worker = dict(pods(SETS[values]))[f"Deployment/{PREFIXES[values]}-worker-cpu"]["spec"]
    [of_worker] = worker["containers"]
    variables = {entry["name"]: json.dumps(entry) for entry in of_worker["env"]}
    own_to_workers = {
        f"AMPCORE_{name}"
        for name in (
            *("WORKER_SLOTS", "WORKER_QUEUES", "WORKER_PORTS", "DATASET_CACHE_BYTES"),
            *("UPLOAD_STALL_S", "TRAINER_ISOLATION", "TRAINER_PROCESSES", "TRAINER_MEMORY_BYTES"),
        )
    }
    for document in documents_of(settings_of(values, tmp_path)).values():
        pod = pod_in(document)["spec"]
        [container] = pod["containers"]
        received = {entry["name"]: json.dumps(entry) for entry in container["env"]}
        for name in variables.keys() - own_to_workers:
            assert json.loads(received[name]) == json.loads(variables[name])
        assert pod["terminationGracePeriodSeconds"] == worker["terminationGracePeriodSeconds"]
        claims = [volume["persistentVolumeClaim"] for volume in worker["volumes"]
                  if "persistentVolumeClaim" in volume]  # fmt: skip
        assert claims == [volume["persistentVolumeClaim"] for volume in pod["volumes"]
                          if "persistentVolumeClaim" in volume]  # fmt: skip


@pytest.mark.parametrize("values", PREFIXES)
def test_a_worker_reads_what_its_pod_has(values: str, tmp_path: Path) -> None:
    for document in documents_of(settings_of(values, tmp_path)).values():
        [container] = pod_in(document)["spec"]["containers"]
        settings = settings_from(WorkerSettings, variables_of(container))
        assert settings.worker_address == POD_IP
        assert settings.worker_slots == 2
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {str(settings.data_dir), str(settings.scratch_dir), "/tmp"} <= mounts
        _, *arguments = container["command"]
        assert CliRunner().invoke(ampserver, [*arguments, "--help"]).exit_code == 0


def test_it_alone_has_a_token_and_may_only_create_and_look(tmp_path: Path) -> None:
    for owner, pod in pods(SETS["gpu"]):
        has_token = pod["spec"]["automountServiceAccountToken"]
        assert has_token is (owner == "Deployment/ampcore-scheduler")
    account = object_of("gpu", "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    [subject] = object_of("gpu", "RoleBinding")["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    verbs = {
        (group, resource): rule["verbs"]
        for rule in object_of("gpu", "Role")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    managed = ["get", "list", "create", "delete"]
    assert verbs == {
        ("batch", "jobs"): managed,
        ("jobset.x-k8s.io", "jobsets"): managed,
        ("", "pods"): ["list"],
        ("", "events"): ["list"],
        ("kueue.x-k8s.io", "workloads"): ["list"],
    }
    for queue in settings_of("gpu", tmp_path).queues.values():
        assert queue.service_account != account


def test_its_pods_accept_connections_of_other_ranks_only(tmp_path: Path) -> None:
    policy = find(manifests(SETS["gpu"]), "NetworkPolicy", "ampcore-allocations")["spec"]
    selector = policy["podSelector"]["matchLabels"]
    [rule] = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": selector}}]
    for document in documents_of(settings_of("gpu", tmp_path)).values():
        assert selector.items() <= pod_in(document)["metadata"]["labels"].items()
    scheduler = find(manifests(SETS["gpu"]), "NetworkPolicy", "ampcore-scheduler")["spec"]
    assert "ingress" not in scheduler


def test_they_reach_the_built_in_databases() -> None:
    for name in ("postgresql", "redis"):
        policy = find(
            manifests(SETS["everything"]), "NetworkPolicy", f"{PREFIXES['everything']}-{name}"
        )["spec"]
        components = {
            peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            for peer in policy["ingress"][0]["from"]
        }
        assert components == {"api", "worker", "scheduler", "allocation"}


def test_the_values_of_the_guide_give_it_settings(tmp_path: Path) -> None:
    for name in ("service", "scheduler"):
        (tmp_path / f"{name}.yaml").write_text(blocks()[f"# {name}.yaml"], encoding="utf-8")
    options = [f"--values={tmp_path / name}.yaml" for name in ("service", "scheduler")]
    rendered = run("helm", "template", RELEASE, CHART, *options)
    assert rendered.returncode == 0, rendered.stderr
    documents = [*yaml.safe_load_all(rendered.stdout)]
    [text] = find(documents, "ConfigMap", "ampcore-scheduler")["data"].values()
    (tmp_path / "kubernetes.yaml").write_text(text, encoding="utf-8")
    queues = read_kubernetes_settings(tmp_path / "kubernetes.yaml").queues
    assert queues["gpu-jobs"].local_queue == "team-a"
    assert queues["batch"].environment["AMPCORE_ARTIFACTS_URL"] == "s3://bucket/ampcore"


@every_row("values", [path for path in VALUES if path.stem not in PREFIXES])
def test_without_it_nothing_of_it_is_there(values: Path) -> None:
    assert "scheduler" not in render(values)


def test_a_change_of_its_settings_restarts_it(tmp_path: Path) -> None:
    changed = yaml.safe_load(SETS["gpu"].read_text(encoding="utf-8"))
    changed["scheduler"]["queues"]["batch"]["drain_s"] = 30
    (tmp_path / "changed.yaml").write_text(yaml.safe_dump(changed), encoding="utf-8")
    annotations = [
        find(manifests(file), "Deployment", "ampcore-scheduler")["spec"]["template"]["metadata"][
            "annotations"
        ]
        for file in (SETS["gpu"], tmp_path / "changed.yaml")
    ]
    assert annotations[0] != annotations[1]


@every_row(
    ("option", "words"),
    [
        ("scheduler.enabled=true", ["scheduler.queues: name the queues"]),
        ("scheduler.queue.gpu.image=x", ["/scheduler", "queue", "not allowed"]),
        ("scheduler.replicas=0", ["/scheduler/replicas", "minimum"]),
        ("scheduler.queues.GPU.image=x", ["GPU", "does not match"]),
        ("scheduler.queues.gpu=x", ["/scheduler/queues/gpu", "want object"]),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(option: str, words: list[str]) -> None:
    message = refusal(SETS["object-store"], "--set", option)
    assert [word for word in words if word not in message] == [], message
