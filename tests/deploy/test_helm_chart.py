"""The Helm chart: its manifests match Kubernetes and the code, and wrong values are refused."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubernetes_validate import utils as kubernetes_schemas
from typer.testing import CliRunner

import ampspec
from ampspec.api.roles import Grant
from ampspec.jobs import State
from server.cli.app import app as ampserver
from server.http.access.auth_middleware import METRICS_PATH, PUBLIC_PATHS
from server.http.access.session_cookie import COOKIE
from server.serve import SHUTDOWN_TIMEOUT_S
from server.settings import Settings as ServerSettings
from tests.deploy.custom_resources import SCHEMAS
from tests.deploy.kubernetes_tools import (
    CHART,
    ROOT,
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
from tests.environment import settings_from
from tests.tables import every_row
from worker.settings import WorkerSettings
from worker.shutdown import GRACE_S

# One process renders each set of values once.
pytestmark = pytest.mark.xdist_group("helm")

KUBERNETES_VERSIONS: Final = ("1.29", "1.33", "1.37")
SETS: Final = {path.stem: path for path in VALUES}
SECRETS: Final = {
    "AMPCORE_DATABASE_URL": "postgresql://ampcore:secret@database:5432/ampcore",
    "AMPCORE_REDIS_URL": "redis://:secret@redis:6379/0",
    "AMPCORE_SMTP_URL": "mailtos://user:secret@smtp.example.com:587?from=ampcore@example.com",
    "AMPCORE_OIDC_CLIENT_SECRET": "secret",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
}
POD_IP: Final = "10.244.1.7"
COMPOSE: Final = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SETTINGS: Final = {
    "api": ServerSettings,
    "migrate": ServerSettings,
    "scheduler": ServerSettings,
    "worker": WorkerSettings,
}
"""The settings that each of our containers reads."""
CHART_VALUES: Final = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def all_manifests() -> Iterator[tuple[str, Manifest]]:
    """The manifests of all sets of values, each with the name of its set."""
    for name, values in SETS.items():
        for manifest in manifests(values):
            yield name, manifest


def all_pods() -> Iterator[tuple[str, str, Manifest]]:
    """The pods of all sets of values: the name of the set, kind and name, and the pod."""
    for name, values in SETS.items():
        for owner, pod in pods(values):
            yield name, owner, pod


def all_containers() -> Iterator[tuple[str, Manifest]]:
    """The containers of all sets of values, each with where it is."""
    for name, owner, pod in all_pods():
        for container in containers_of(pod):
            yield f"{name}: {owner}", container


def variables_of(container: Manifest) -> dict[str, str]:
    """The environment of a container, with sample values for what Kubernetes fills in."""
    environment = {}
    for variable in container.get("env", []):
        name, source = variable["name"], variable.get("valueFrom", {})
        if "secretKeyRef" in source:
            environment[name] = SECRETS[name]
        elif "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "status.podIP"
            environment[name] = POD_IP
        else:
            environment[name] = variable["value"]
    return environment


# The chart is valid.


@every_row("values", VALUES)
def test_helm_finds_nothing_to_correct(values: Path) -> None:
    linted = run("helm", "lint", "--strict", "--quiet", CHART, f"--values={values}")
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_there_are_ten_sets_of_values_and_each_says_what_it_is() -> None:
    assert len(VALUES) >= 10
    assert all(path.read_text(encoding="utf-8").startswith("# ") for path in VALUES)


def test_the_versions_are_those_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["appVersion"] == project["version"] == ampspec.__version__
    oldest = chart["kubeVersion"].removeprefix(">=").removesuffix(".0-0")
    assert oldest == KUBERNETES_VERSIONS[0]


def test_every_manifest_matches_the_schemas_of_three_versions_of_kubernetes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It reads the file with all definitions again for each document.
    monkeypatch.setattr(
        kubernetes_schemas, "schema_contents", cache(kubernetes_schemas.schema_contents)
    )
    problems, kinds = [], set()
    for name, manifest in all_manifests():
        kinds.add(manifest["kind"])
        if manifest["kind"] in SCHEMAS:
            continue
        for version in KUBERNETES_VERSIONS:
            try:
                kubernetes_validate.validate(manifest, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                path = "/".join(map(str, error.absolute_path))
                problems.append(
                    f"{name}, {version}: {manifest['kind']} {manifest['metadata']['name']}: "
                    f"{path}: {error.message[:200]}"
                )
    assert problems == []
    assert kinds >= {
        "Deployment",
        "Ingress",
        "Job",
        "ConfigMap",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "StatefulSet",
        *SCHEMAS,
    }


def test_the_schemas_of_kubernetes_refuse_a_misspelt_field() -> None:
    deployment = find(manifests(SETS["object-store"]), "Deployment", "ampcore-api")
    misspelt = json.loads(json.dumps(deployment).replace("readOnlyRootFilesystem", "readOnlyRoot"))
    for version in KUBERNETES_VERSIONS:
        with pytest.raises(kubernetes_validate.ValidationError, match="readOnlyRoot"):
            kubernetes_validate.validate(misspelt, version, strict=True)


def test_custom_resources_match_their_documentation() -> None:
    checked = set()
    for name, manifest in all_manifests():
        if (schema := SCHEMAS.get(manifest["kind"])) is not None:
            errors = [*jsonschema.Draft202012Validator(schema).iter_errors(manifest)]
            assert errors == [], f"{name}: {manifest['metadata']['name']}"
            checked.add(manifest["kind"])
    assert checked == set(SCHEMAS)


@every_row(("kind", "path"), [("ServiceMonitor", "endpoints"), ("ScaledObject", "triggers")])
def test_the_written_schemas_refuse_a_misspelt_field(kind: str, path: str) -> None:
    manifest = next(manifest for _, manifest in all_manifests() if manifest["kind"] == kind)
    misspelt = json.loads(json.dumps(manifest))
    misspelt["spec"][path][0]["inteval"] = "15s"
    with pytest.raises(jsonschema.ValidationError, match="inteval"):
        jsonschema.validate(misspelt, SCHEMAS[kind])


@every_row("values", VALUES)
def test_names_are_short_enough_and_unique(values: Path) -> None:
    names = [(document["kind"], document["metadata"]["name"]) for document in manifests(values)]
    assert len(set(names)) == len(names)
    longest = {"Service": 63, "Deployment": 63, "StatefulSet": 52, "Job": 63}
    assert [pair for pair in names if len(pair[1]) > longest.get(pair[0], 253)] == []
    for _, pod in pods(values):
        assert all(len(text) <= 63 for text in pod["metadata"]["labels"].values())


@every_row("values", VALUES)
def test_names_in_a_list_are_unique(values: Path) -> None:
    # Server-side apply refuses a list with two entries of one name.
    for _, pod in pods(values):
        lists = [pod["spec"].get("volumes", []), containers_of(pod)]
        lists += [container.get("env", []) for container in containers_of(pod)]
        for entries in lists:
            names = [entry["name"] for entry in entries]
            assert len(set(names)) == len(names)


def test_a_label_of_a_pod_wins_over_a_common_one() -> None:
    [(_, pod)] = [pair for pair in pods(SETS["api-only"]) if pair[0].endswith("-api")]
    labels = pod["metadata"]["labels"]
    assert (labels["team"], labels["tier"]) == ("vision", "api")


def test_a_pod_has_no_label_that_changes_with_the_chart_alone() -> None:
    for name, owner, pod in all_pods():
        if not owner.startswith("Pod/"):
            assert not any("chart" in label for label in pod["metadata"]["labels"]), name


@every_row("values", VALUES)
def test_a_rendered_line_has_no_trailing_space(values: Path) -> None:
    assert [line for line in render(values).splitlines() if line != line.rstrip()] == []


# Every object selects what it is meant for.


def count_selected(selector: dict[str, str], labels_of_objects: list[dict[str, str]]) -> int:
    """How many objects have all labels of the selector."""
    return sum(selector.items() <= labels.items() for labels in labels_of_objects)


@every_row("values", VALUES)
def test_every_selector_selects_pods(values: Path) -> None:
    documents = manifests(values)
    labels = [pod["metadata"]["labels"] for _, pod in pods(values)]
    for document in documents:
        spec = document.get("spec", {})
        match document["kind"]:
            case "Service":
                selector = spec["selector"]
            case "Deployment" | "StatefulSet" | "PodDisruptionBudget":
                selector = spec["selector"]["matchLabels"]
            case "NetworkPolicy":
                selector = spec["podSelector"]["matchLabels"]
            case "ServiceMonitor":
                selector = spec["selector"]["matchLabels"]
                services = [document for document in documents if document["kind"] == "Service"]
                labels_of_services = [service["metadata"]["labels"] for service in services]
                assert count_selected(selector, labels_of_services) == 1
                continue
            case _:
                continue
        if selector["app.kubernetes.io/component"] == "allocation":
            continue  # pods that the scheduler creates; see test_helm_scheduler.py
        # A policy about the built-in databases selects those pods alone, and so on.
        assert count_selected(selector, labels) == 1, document["metadata"]


def test_a_scaled_pool_has_no_number_of_replicas_and_others_have_one() -> None:
    documents = manifests(SETS["autoscaling"])
    scaled = {
        document["spec"]["scaleTargetRef"]["name"]
        for document in documents
        if document["kind"] == "ScaledObject"
    }
    assert scaled == {"ampcore-worker-cpu", "ampcore-worker-gpu"}
    for document in documents:
        if document["kind"] == "Deployment":
            is_scaled = document["metadata"]["name"] in scaled
            assert ("replicas" in document["spec"]) is not is_scaled


def test_a_value_of_a_pool_replaces_the_default_also_a_zero() -> None:
    documents = manifests(SETS["gpu"])
    replicas = {
        name: find(documents, "Deployment", f"ampcore-worker-{name}")["spec"]["replicas"]
        for name in ("cpu", "gpu", "mig")
    }
    assert replicas == {"cpu": 2, "gpu": 4, "mig": 0}
    budgets = {
        document["metadata"]["name"]
        for document in documents
        if document["kind"] == "PodDisruptionBudget"
    }
    assert budgets == {"ampcore-api", "ampcore-worker-cpu", "ampcore-worker-mig"}


# The containers run what the code has, with variables that it reads.


def test_every_command_exists() -> None:
    commands = {
        shlex.join(container["command"])
        for _, container in all_containers()
        if container.get("command", [""])[0] == "ampserver"
    }
    assert {command.split()[1] for command in commands} == {
        *("api", "migrate", "schedule", "worker")
    }
    for command in commands:
        _, *arguments = shlex.split(command)
        result = CliRunner().invoke(ampserver, [*arguments, "--help"])
        assert result.exit_code == 0, result.output


def test_the_test_of_a_release_is_a_program_that_asks_for_readiness() -> None:
    for values in VALUES:
        [(_, pod)] = [pair for pair in pods(values) if pair[0].startswith("Pod/")]
        [container] = pod["spec"]["containers"]
        *command, program = container["command"]
        assert command == ["python", "-c"]
        compile(program, "readiness", "exec")
        host, port = re.findall(r'HTTPConnection\("([a-z0-9-]+)", (\d+)', program)[0]
        service = find(manifests(values), "Service", host)
        assert [str(entry["port"]) for entry in service["spec"]["ports"]] == [port]
        assert '"/readyz"' in program


def test_every_variable_is_one_that_the_settings_read() -> None:
    variables = COMPOSE["services"]["worker"]["environment"]
    of_libraries = {name for name in variables if name.startswith(("AWS_", "OTEL_"))}
    seen: set[str] = set()
    for where, container in all_containers():
        if (settings := SETTINGS.get(container["name"])) is not None:
            names = set(variables_of(container))
            assert names <= fields_of(settings) | of_libraries, where
            seen |= names
    # All settings of a server and a worker can be set, except for the sandbox of custom code, which
    # needs root, and users of trainers, which need root, too.
    of_root = {"AMPCORE_TRAINER_USERS"} | {
        f"AMPCORE_BUNDLE_{name}"
        for name in ("SANDBOX", "MEMORY_BYTES", "PROCESSES", "DISK_BYTES", "USER_NAMESPACE")
    }
    of_one_job = {"AMPCORE_WORKER_JOB", "AMPCORE_WORKER_JOB_WAIT_S"}  # in pods of the scheduler
    of_arguments = {"AMPCORE_SCHEDULER", "AMPCORE_SCHEDULER_CONFIG"}  # of the scheduler
    all_fields = fields_of(ServerSettings) | fields_of(WorkerSettings)
    in_files = {"AMPCORE_OIDC_CLIENT_SECRET_FILE"}  # the chart passes secrets as variables
    assert seen == all_fields - of_root - of_one_job - of_arguments - in_files | of_libraries


def fields_of(settings: type[ServerSettings] | type[WorkerSettings]) -> set[str]:
    """The variables that a process reads."""
    return {f"AMPCORE_{field.upper()}" for field in settings.model_fields}


def test_the_settings_accept_every_value() -> None:
    for where, container in all_containers():
        if (kind := SETTINGS.get(container["name"])) is not None:
            variables = {"AMPCORE_DATA_DIR": "/data"} | variables_of(container)
            settings = settings_from(kind, variables)
            assert settings.database_url == SECRETS["AMPCORE_DATABASE_URL"], where


def test_values_arrive_in_the_settings() -> None:
    [api] = [
        settings_from(ServerSettings, variables_of(container))
        for owner, pod in pods(SETS["ingress"])
        for container in containers_of(pod)
        if owner == "Deployment/ampcore-api"
    ]
    assert [str(network) for network in api.trusted_proxies] == [
        "10.244.0.0/16",
        "fd00:10:244::/56",
    ]
    assert api.public_url == "https://train.example.org"  # the address of the ingress
    assert (api.host, api.port) == ("0.0.0.0", 8470)  # noqa: S104 - in its container
    assert api.oidc_issuer == "https://login.example.org/realms/team"
    assert api.oidc_groups["leads"] == (
        Grant("vision", "member", ("jobs:run-code",)),
        Grant("audio", "viewer"),
    )
    assert (api.oidc_groups_claim, api.oidc_client_secret) == (("groups", "roles"), "secret")
    gpu = find(manifests(SETS["gpu"]), "Deployment", "ampcore-worker-mig")
    worker = settings_from(
        WorkerSettings, variables_of(gpu["spec"]["template"]["spec"]["containers"][0])
    )
    # Helm reads large numbers as floating point: 1.073741824e+11.
    assert worker.dataset_cache_bytes == 107_374_182_400
    assert (worker.worker_slots, worker.worker_queues) == (2, ("small.gpu",))
    assert worker.worker_address == POD_IP
    shared = dict(pods(SETS["shared-volume"]))["Deployment/ampcore-worker-cpu"]
    worker = settings_from(WorkerSettings, variables_of(shared["spec"]["containers"][0]))
    assert (worker.lease_s, worker.drain_timeout_s, worker.log_format) == (12.5, 1800.0, "text")
    assert worker.artifacts_url == "file:///data/artifacts"


def test_kubectl_reads_the_same_variables() -> None:
    values = SETS["everything"]
    listed = run("kubectl", "set", "env", "--local", "--list", "-f", "-", text=builtin(values))
    assert listed.returncode == 0, listed.stderr
    names = sorted(re.findall(r"^(?:# )?([A-Z][A-Z0-9_]+)(?:=| from )", listed.stdout, re.M))
    expected = [
        variable["name"]
        for _, pod in pods(values)
        for container in containers_of(pod)
        for variable in container.get("env", [])
    ]
    assert names == sorted(expected)


def builtin(values: Path) -> str:
    """The manifests of kinds that kubectl knows without a cluster."""
    return yaml.safe_dump_all(
        document for document in manifests(values) if document["kind"] not in SCHEMAS
    )


def test_server_and_worker_have_equal_shared_settings() -> None:
    for values in VALUES:
        shared: dict[str, set[str]] = {}
        for _, pod in pods(values):
            for container in pod["spec"]["containers"]:
                if container["name"] not in ("api", "worker"):
                    continue
                for variable in container["env"]:
                    shared.setdefault(variable["name"], set()).add(json.dumps(variable))
        assert {name for name, texts in shared.items() if len(texts) > 1} <= {
            f"AMPCORE_{name}"
            for name in (
                "WORKER_SLOTS",
                "WORKER_QUEUES",
                "DATASET_CACHE_BYTES",
            )
        }


def test_images_are_those_of_the_values() -> None:
    images = {
        name: {container["image"] for where, container in all_containers() if where == place}
        for name, place in {
            "tag": "shared-volume: Deployment/ampcore-api",
            "digest": "cloud-role: Deployment/ampcore-worker-cpu",
            "default": "gpu: Deployment/ampcore-worker-gpu",
            "migration": "object-store: Job/ampcore-migrate",
        }.items()
    }
    assert images == {
        "tag": {"my-registry/ampcore-server:2026-11-28"},
        "digest": {f"my-registry/ampcore-worker@sha256:{'2' * 64}"},
        "default": {f"my-registry/ampcore-worker-gpu:{ampspec.__version__}"},
        "migration": {f"my-registry/ampcore-server:{ampspec.__version__}"},
    }


def test_the_built_in_databases_are_those_of_the_compose_file() -> None:
    for service, name in {"postgres": "postgresql", "redis": "redis"}.items():
        image = CHART_VALUES["builtIn"][name]["image"]
        assert f"{image['repository']}:{image['tag']}" == COMPOSE["services"][service]["image"]
        pod = dict(pods(SETS["trial"]))[f"StatefulSet/ampcore-{name}"]
        [container] = pod["spec"]["containers"]
        variables = {variable["name"] for variable in container["env"]}
        assert variables == set(COMPOSE["services"][service]["environment"])


def test_dockerfiles_that_the_values_name_exist() -> None:
    named = re.findall(r"docker/\w+\.Dockerfile", (CHART / "values.yaml").read_text("utf-8"))
    assert len(named) == 2
    assert all((ROOT / name).is_file() for name in named)


# Life of a pod.


def test_probes_ask_for_paths_that_need_no_token() -> None:
    paths = set()
    for _, container in all_containers():
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            if "httpGet" in container.get(name, {}):
                paths.add((name, container[name]["httpGet"]["path"]))
                [port] = container["ports"]
                assert container[name]["httpGet"]["port"] == port["name"]
    assert {path for _, path in paths} == PUBLIC_PATHS
    # A server that cannot reach its database is not restarted.
    assert ("livenessProbe", "/healthz") in paths
    assert ("readinessProbe", "/readyz") in paths


def test_a_worker_has_more_time_to_stop_than_it_needs() -> None:
    for _, owner, pod in all_pods():
        if "-worker-" in owner:
            variables = variables_of(pod["spec"]["containers"][0])
            drain_s = float(variables["AMPCORE_DRAIN_TIMEOUT_S"])
            assert pod["spec"]["terminationGracePeriodSeconds"] >= drain_s + 6 * GRACE_S
            assert pod["spec"]["shareProcessNamespace"] is True  # reaps orphans, as `init: true`


def test_a_server_has_more_time_to_stop_than_its_requests() -> None:
    pod = dict(pods(SETS["object-store"]))["Deployment/ampcore-api"]
    [container] = pod["spec"]["containers"]
    program, pause_s = container["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    spare_s = pod["spec"]["terminationGracePeriodSeconds"] - int(pause_s) - SHUTDOWN_TIMEOUT_S
    assert spare_s >= 10


def test_a_rollout_replaces_servers_without_a_gap_and_workers_one_by_one() -> None:
    documents = manifests(SETS["gpu"])
    api = find(documents, "Deployment", "ampcore-api")["spec"]["strategy"]["rollingUpdate"]
    worker = find(documents, "Deployment", "ampcore-worker-gpu")["spec"]
    assert api == {"maxSurge": 1, "maxUnavailable": 0}
    # A new worker would wait for the GPU of an old one.
    assert worker["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    grace_s = worker["template"]["spec"]["terminationGracePeriodSeconds"]
    assert worker["progressDeadlineSeconds"] > grace_s + worker["minReadySeconds"]


# Migrations.


def test_a_hook_migrates_before_install_and_upgrade_and_needs_nothing_of_the_release() -> None:
    job = find(manifests(SETS["object-store"]), "Job", "ampcore-migrate")
    annotations = job["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "hook-failed" not in annotations["helm.sh/hook-delete-policy"]  # its log stays
    pod = job["spec"]["template"]["spec"]
    assert "serviceAccountName" not in pod
    assert [[*volume][1] for volume in pod["volumes"]] == ["emptyDir"]


@every_row(
    ("name", "has_job", "has_container"),
    [("object-store", True, False), ("trial", False, True), ("api-only", False, False)],
)
def test_a_release_migrates_in_one_way(name: str, has_job: bool, has_container: bool) -> None:
    documents = manifests(SETS[name])
    assert any(document["kind"] == "Job" for document in documents) is has_job
    [api] = [pod for owner, pod in pods(SETS[name]) if owner.endswith("-api")]
    assert ("initContainers" in api["spec"]) is has_container


# GPUs and storage.


def test_a_worker_with_gpus_gets_them_by_the_name_of_the_resource() -> None:
    containers = {
        owner: pod["spec"]["containers"][0]["resources"] for owner, pod in pods(SETS["gpu"])
    }
    assert containers["Deployment/ampcore-worker-gpu"]["limits"]["nvidia.com/gpu"] == "1"
    assert containers["Deployment/ampcore-worker-mig"]["limits"]["nvidia.com/mig-1g.18gb"] == "2"
    assert not any("/" in name for name in containers["Deployment/ampcore-worker-cpu"]["limits"])
    pod = dict(pods(SETS["gpu"]))["Deployment/ampcore-worker-gpu"]["spec"]
    assert (pod["runtimeClassName"], pod["priorityClassName"]) == ("nvidia", "training")
    assert pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert [toleration["key"] for toleration in pod["tolerations"]] == ["nvidia.com/gpu"]


def test_every_folder_that_is_written_is_a_volume() -> None:
    for where, owner, pod in all_pods():
        volumes = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        volumes |= {"data"} if owner == "StatefulSet/ampcore-postgresql" else set()
        for container in containers_of(pod):
            mounts = {
                mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", [])
            }
            if not owner.endswith(("-postgresql", "-redis")):
                assert set(mounts.values()) <= volumes
            if (kind := SETTINGS.get(container["name"])) is None:
                continue
            if container["name"] in ("migrate", "scheduler"):  # they write no files
                continue
            settings = settings_from(kind, variables_of(container))
            assert {"/tmp", str(settings.data_dir)} <= set(mounts), where
            if isinstance(settings, WorkerSettings):
                assert str(settings.scratch_dir) in mounts


def test_files_of_jobs_outlive_the_release() -> None:
    claim = find(manifests(SETS["trial"]), "PersistentVolumeClaim", "ampcore-data")
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_a_volume_that_exists_is_used_by_servers_and_workers() -> None:
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for _, pod in pods(SETS["shared-volume"])
        for volume in pod["spec"].get("volumes", [])
        if "persistentVolumeClaim" in volume
    ]
    assert claims == ["nfs-ampcore", "nfs-ampcore"]
    assert not any(
        document["kind"] == "PersistentVolumeClaim" for document in manifests(SETS["shared-volume"])
    )


# Monitoring.


def queries() -> Iterator[str]:
    """Every PromQL expression of the alerts and of the autoscaling."""
    for _, manifest in all_manifests():
        match manifest["kind"]:
            case "PrometheusRule":
                for group in manifest["spec"]["groups"]:
                    yield from (rule["expr"] for rule in group["rules"])
            case "ScaledObject":
                yield manifest["spec"]["triggers"][0]["metadata"]["query"]


def test_every_metric_of_a_query_exists() -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "server").rglob("*.py"))
    metrics = set(re.findall(r"\"(ampcore_[a-z_]+)\"", code)) - {COOKIE}
    named = set(re.findall(r"\bampcore_[a-z_]+", "\n".join(queries())))
    assert {name.removesuffix("_total").removesuffix("_count") for name in named} <= metrics
    assert len(named) > 10


def test_every_alert_of_the_guide_is_in_the_rules() -> None:
    guide = (ROOT / "docs/guides/operating.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(ampcore_[a-z_]+)` \| ([^|]*\S[^|]*) \|", guide, re.MULTILINE)
    with_limit = {name for name, alert in rows if re.search(r"\d|above|version", alert)}
    rule = find(manifests(SETS["monitoring"]), "PrometheusRule", "ampcore")
    expressions = " ".join(rule["expr"] for rule in rule["spec"]["groups"][0]["rules"])
    # How many attempts may fail is a question of the users.
    left_out = {"ampcore_attempts_total", "ampcore_queue_wait_seconds"}
    assert {name for name in with_limit - left_out if name not in expressions} == set()


def test_workers_are_scaled_by_the_jobs_that_wait_or_have_a_slot() -> None:
    scaled = find(manifests(SETS["autoscaling"]), "ScaledObject", "ampcore-worker-cpu")
    [trigger] = scaled["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    [states] = re.findall(r'state=~"([a-z|]+)"', query)
    assert set(states.split("|")) == {State.QUEUED} | {state for state in State if state.is_active}
    [queue] = re.findall(r'queue=~"([^"]+)"', query)
    names = ("default", "cpu", "small.cpu", "cpu/birds")
    assert all(re.fullmatch(queue, name) for name in names)
    assert not any(re.fullmatch(queue, name) for name in ("gpu", "small-cpu", "cpus"))
    assert trigger["metadata"]["threshold"] == "4"  # its slots
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    assert trigger["metadata"]["authModes"] == "bearer"


def test_the_service_monitor_reads_the_metrics_with_a_token_from_a_secret() -> None:
    monitor = find(manifests(SETS["monitoring"]), "ServiceMonitor", "ampcore-api")
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["path"] == METRICS_PATH
    assert endpoint["authorization"]["credentials"] == {"name": "ampcore-metrics", "key": "token"}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_series_are_selected_by_the_labels_of_the_service_monitor() -> None:
    rule = find(manifests(SETS["monitoring"]), "PrometheusRule", "ampcore")
    for alert in rule["spec"]["groups"][0]["rules"][:-1]:  # the last one is the user's
        assert 'namespace="trainers",service="ampcore-api"' in alert["expr"]
    queries_of_pools = [
        manifest["spec"]["triggers"][0]["metadata"]["query"]
        for manifest in manifests(SETS["autoscaling"])
        if manifest["kind"] == "ScaledObject"
    ]
    assert all('{job="ampcore"' in query for query in queries_of_pools)


# Wrong values.


@every_row(
    ("option", "words"),
    [
        ("api.replica=3", ["/api", "replica", "not allowed"]),
        ("api.replicas=two", ["/api/replicas", "got string, want integer"]),
        ("api.replicas=0", ["/api/replicas", "minimum"]),
        ("api.rateLimit=often", ["/api/rateLimit", "second|minute|hour|day"]),
        ("api.resources.limits=null", ["/api/resources", "limits"]),
        ("artifacts.url=file:///mnt", ["/artifacts/url", "s3|gs|az"]),
        ("artifacts.url=s3://key:secret@host/bucket", ["/artifacts/url", "s3|gs|az"]),
        ("artifacts.sharedVolume.enabled=true", ["artifacts: set either url or sharedVolume"]),
        ("artifacts.url=", ["artifacts: set url"]),
        ("database.existingSecret=", ["database.existingSecret: name the Secret"]),
        ("database.url=postgresql://a:b@c/d", ["/database", "url", "not allowed"]),
        ("migrations.strategy=job", ["/migrations/strategy", "'hook', 'initContainer', 'none'"]),
        ("builtIn.postgresql.enabled=true", ["migrations.strategy: set initContainer", "password"]),
        ("ingress.enabled=true", ["ingress.host", "ingress.tls", "api.trustedProxies"]),
        ("workers.slots=0", ["/workers/slots", "minimum"]),
        ("workers.slots=40", ["workerPools.cpu.rankPorts", "40 slots need at least 80 ports"]),
        ("workers.gpu.count=1", ["/workers/gpu", "resourceName"]),
        ("workers.queues={Default}", ["/workers/queues/0", "does not match"]),
        ("workers.trainerIsolation=on", ["/workers/trainerIsolation", "'required'"]),
        ("workerPools.GPU.slots=1", ["GPU", "does not match"]),
        ("workerPools.gpu.slot=1", ["/workerPools/gpu", "slot", "not allowed"]),
        ("workerPools.cpu.autoscaling.enabled=true", ["/workerPools/cpu/autoscaling", "missing"]),
        ("workers.autoscaling.enabled=true", ["autoscaling.prometheusUrl"]),
        ("metrics.serviceMonitor.enabled=true", ["metrics.serviceMonitor.tokenSecret.name"]),
        ("images.server.digest=sha256:1", ["/images/server/digest", "does not match"]),
        ("settings.logFormat=xml", ["/settings/logFormat", "'json', 'text'"]),
        ("nameOverride=Ampcore", ["/nameOverride", "does not match"]),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(option: str, words: list[str]) -> None:
    message = refusal(SETS["object-store"], "--set", option)
    assert [word for word in words if word not in message] == [], message


def test_a_pool_with_gpus_has_a_slot_for_each() -> None:
    options = ("--set", "workerPools.gpu.gpu.count=4,workerPools.gpu.slots=2")
    assert "workerPools.gpu: it has 2 slots, but 4 GPUs" in refusal(SETS["gpu"], *options)


def test_without_values_everything_that_is_missing_is_listed() -> None:
    defaults = CHART / "values.yaml"
    message = refusal(defaults)
    for name in ("images.server.repository", "database", "redis", "artifacts", "images.worker"):
        assert f"\n- {name}" in message


def value_paths(document: Any, path: str = "") -> Iterator[str]:
    """The paths of all keys of the values, not those inside of free-form values."""
    if isinstance(document, dict) and not path.endswith(FREE_FORM):
        for name, below in document.items():
            yield f"{path}/{name}"
            yield from value_paths(below, f"{path}/{name}")


FREE_FORM: Final = (
    *("/image", "/gpu", "/workerPools", "Selector", "/requests", "/limits", "/annotations"),
    *("abels", "Labels", "/affinity", "Annotations", "/scheduler/queues"),
)


def schema_paths(schema: Any, definitions: Any, path: str = "") -> Iterator[str]:
    """The paths of all keys that the schema knows."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if not path.endswith(FREE_FORM):
        for name, below in schema.get("properties", {}).items():
            yield f"{path}/{name}"
            yield from schema_paths(below, definitions, f"{path}/{name}")


def test_every_value_of_the_schema_has_a_default_with_a_comment_beside_it() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    known = set(schema_paths(schema, schema["definitions"]))
    written = set(value_paths(CHART_VALUES))
    assert written - known == set()
    without_default = {path for path in known - written if not path.startswith("/global")}
    assert {path.rpartition("/")[2] for path in without_default} <= {"ipBlock", "claims"}


# What helm prints after an installation.


@every_row("values", VALUES)
def test_the_notes_name_objects_and_commands_that_exist(values: Path) -> None:
    command = ("install", "ampcore", CHART, "--namespace=trainers", "--dry-run=client")
    installed = run("helm", *command, f"--values={values}")
    assert installed.returncode == 0, installed.stderr
    notes = installed.stdout.partition("\nNOTES:\n")[2]
    assert "ampserver token create alice --role admin" in notes
    documents = manifests(values)
    kinds = {"deploy": "Deployment", "service": "Service"}
    named = re.findall(r"\b(deploy|service)/([a-z0-9-]+)", notes)
    assert named
    for kind, name in named:
        assert find(documents, kinds[kind], name)
    for command_line in re.findall(r"ampserver [a-z -]+", notes):
        words = [word for word in command_line.split()[1:] if word not in ("alice", "prometheus")]
        result = CliRunner().invoke(ampserver, [*words[:2], "--help"])
        assert result.exit_code == 0, command_line
