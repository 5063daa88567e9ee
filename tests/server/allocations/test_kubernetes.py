"""Kubernetes: what is created, how it goes on, and what the API may answer."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from infra.settings import SettingsInvalid
from server.allocations.batch_system import (
    AllocationRequest,
    BatchSystemUnavailable,
    SubmissionRefused,
)
from server.allocations.kubernetes_manifests import manifest_of
from server.allocations.kubernetes_settings import read_kubernetes_settings
from tests.deploy.test_helm_chart import KUBERNETES_VERSIONS
from tests.deploy.test_helm_security import check_pod
from tests.kubernetes_api import Failure, check_job_set, check_manifest
from tests.server.allocations.kubernetes_queues import settings_with
from tests.tables import every_row

GUIDE = Path(__file__).parents[3] / "docs/guides/clusters.md"


def request(name="ampcore-0123456789ab-1-1", queue="cpu", nodes=1, devices=1, limit_s=300.0):
    return AllocationRequest(name, "0123456789ab", queue, nodes, devices, limit_s)


NAME = request().name
REQUESTS = {
    "one pod": request(),
    "devices": request(queue="gpu", devices=4),
    "several nodes": request(queue="gpu", nodes=3, devices=8),
    "a queue of Kueue": request(queue="fair"),
    "several nodes in a queue of Kueue": request(queue="fair", nodes=2),
    "custom code": request(queue="code"),
}


def manifest(kind):
    wanted_request = REQUESTS[kind]
    queue = settings_with().queues[wanted_request.queue]
    return manifest_of(wanted_request, queue, keep_ended_s=3600)[1]


def job_of(document):
    """The spec of the Job, of a JobSet that of its Job."""
    if document["kind"] == "JobSet":
        return document["spec"]["replicatedJobs"][0]["template"]["spec"]
    return document["spec"]


def pod_of(document):
    return job_of(document)["template"]


# What is created.


@every_row("kind", REQUESTS)
def test_every_manifest_matches_the_schemas_of_three_versions_of_kubernetes(kind):
    document = manifest(kind)
    for version in KUBERNETES_VERSIONS:
        if document["kind"] == "JobSet":
            check_job_set(document, version)
        else:
            check_manifest(document, version)


@every_row("kind", [kind for kind in REQUESTS if kind != "custom code"])
def test_no_pod_has_privileges_or_a_token(kind):
    assert [*check_pod(pod_of(manifest(kind)))] == []


def test_a_job_with_one_node_is_a_job_with_one_pod_that_is_never_restarted():
    document = manifest("one pod")
    spec, pod = document["spec"], pod_of(document)["spec"]
    assert (document["kind"], spec["parallelism"], spec["completions"]) == ("Job", 1, 1)
    assert (spec["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert spec["ttlSecondsAfterFinished"] == 3600
    assert "suspend" not in spec
    [container] = pod["containers"]
    assert container["command"] == ["ampserver", "worker", "--job", "0123456789ab"]
    assert document["metadata"]["labels"]["ampcore/job"] == "0123456789ab"
    assert document["metadata"]["annotations"]["ampcore/created-by"] == (
        "ampserver schedule kubernetes, for job 0123456789ab of the queue cpu"
    )


def test_a_job_with_several_nodes_is_a_job_set_whose_pods_end_together():
    document = manifest("several nodes")
    spec, job = document["spec"], job_of(document)
    assert document["kind"] == "JobSet"
    assert spec["failurePolicy"] == {"maxRestarts": 0}
    assert (job["parallelism"], job["completions"], job["backoffLimit"]) == (3, 3, 0)
    assert job["completionMode"] == "Indexed"


def test_a_pod_has_the_devices_cpus_and_memory_of_its_ranks():
    [container] = pod_of(manifest("several nodes"))["spec"]["containers"]
    resources = {"cpu": "64", "memory": "12.0Gi", "nvidia.com/gpu": "8"}
    assert container["resources"] == {"requests": resources, "limits": resources}
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert variables["AMPCORE_WORKER_SLOTS"] == "8"
    assert "nvidia.com/gpu" not in str(manifest("one pod"))


def test_the_time_limit_begins_on_the_node_and_a_drain_follows_it():
    queue = settings_with().queues["cpu"]
    pod = pod_of(manifest("one pod"))["spec"]
    assert "activeDeadlineSeconds" not in job_of(manifest("one pod"))
    assert pod["activeDeadlineSeconds"] == 300 + queue.start_s
    assert pod["terminationGracePeriodSeconds"] == queue.drain_s + 60
    _, document = manifest_of(replace(request(), time_limit_s=None), queue, keep_ended_s=3600)
    assert pod_of(document)["spec"]["activeDeadlineSeconds"] == 86_400 + queue.start_s


def test_secrets_are_only_named_and_files_have_volumes():
    pod = pod_of(manifest("devices"))["spec"]
    [container] = pod["containers"]
    [secret] = [entry for entry in container["env"] if entry["name"] == "AMPCORE_DATABASE_URL"]
    assert secret["valueFrom"] == {"secretKeyRef": {"name": "ampcore", "key": "database"}}
    assert container["envFrom"] == [{"secretRef": {"name": "ampcore-s3"}}]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert {*mounts} == {
        *("/scratch", "/tmp", "/data", "/dev/shm", "/etc/certs", "/etc/keys", "/cache")
    }
    assert mounts["/etc/keys"]["readOnly"] is True
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["files"]["persistentVolumeClaim"] == {"claimName": "nfs"}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}


def test_kueue_starts_what_waits_in_its_queue():
    for kind in ("a queue of Kueue", "several nodes in a queue of Kueue"):
        document = manifest(kind)
        assert document["spec"]["suspend"] is True
        assert document["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"


def test_custom_code_runs_as_root_of_a_user_namespace_only_where_the_settings_say_so():
    spec = pod_of(manifest("custom code"))["spec"]
    assert (spec["hostUsers"], spec["securityContext"]["runAsUser"]) == (False, 0)
    security = spec["containers"][0]["securityContext"]
    assert security["capabilities"] == {
        "drop": ["ALL"],
        "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"],
    }
    assert security["allowPrivilegeEscalation"] is False
    required = {"name": "AMPCORE_BUNDLE_USER_NAMESPACE", "value": "required"}
    assert required in spec["containers"][0]["env"]
    assert "hostUsers" not in str(manifest("devices"))


def test_a_name_that_is_too_long_for_pods_is_refused_before_it_is_sent(kubernetes, cluster):
    name = "ampcore-" + "a" * 35 + "-1-1"
    kubernetes.submit(request(name=name))
    with pytest.raises(SubmissionRefused, match="-node-0-1-xxxxx, would have 64 characters"):
        kubernetes.submit(request(name=f"{name}a1", nodes=2))
    assert cluster.created == [name]


# Submitting.


def test_an_allocation_is_created_once(kubernetes, cluster):
    for _ in range(2):
        assert kubernetes.submit(request()) == f"job/{NAME}"
    assert kubernetes.submit(request(f"{NAME}1", nodes=2)) == f"jobset/{NAME}1"
    assert cluster.created == [NAME, f"{NAME}1"]


@pytest.mark.parametrize("code", [0, 500, 504])
def test_a_created_object_whose_response_is_lost_is_adopted(kubernetes, cluster, code):
    cluster.failures = [Failure("POST", "jobs", code, is_done=True)]
    with pytest.raises(BatchSystemUnavailable):
        kubernetes.submit(request())
    assert kubernetes.submit(request()) == f"job/{NAME}"
    assert cluster.created == [NAME]


def test_an_object_of_somebody_else_is_not_adopted(kubernetes, cluster):
    kubernetes.submit(request())
    cluster.find(NAME)["metadata"]["labels"]["ampcore/job"] = "fedcba987654"
    with pytest.raises(SubmissionRefused, match=f"job/{NAME} exists, and belongs to something"):
        kubernetes.submit(request())


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (400, "BadRequest", "unable to parse quantity's suffix"),
        (403, "Forbidden", 'jobs.batch "x" is forbidden: exceeded quota: count/jobs.batch=10'),
        (404, "NotFound", 'namespaces "trainers" not found'),
        (422, "Invalid", "spec.template.spec.priorityClassName: not found"),
    ],
)
def test_what_the_api_refuses_has_its_message(kubernetes, cluster, code, reason, message):
    cluster.failures = [Failure("POST", "jobs", code, reason, message)]
    with pytest.raises(SubmissionRefused) as caught:
        kubernetes.submit(request())
    assert str(caught.value) == message
    kubernetes.submit(request())


@pytest.mark.parametrize(
    ("code", "reason"),
    [(401, "Unauthorized"), (409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError"),
     (503, ""), (302, "")],
)  # fmt: skip
def test_an_answer_that_says_nothing_of_the_request_is_no_refusal(
    kubernetes, cluster, code, reason
):
    cluster.failures = [Failure("POST", "jobs", code, reason, "try again")]
    with pytest.raises(BatchSystemUnavailable):
        kubernetes.submit(request())
    assert kubernetes.submit(request()) == f"job/{NAME}"


def test_a_cluster_without_job_sets_runs_jobs_with_one_node(kubernetes, cluster):
    cluster.installed -= {"jobsets"}
    kubernetes.submit(request())
    with pytest.raises(SubmissionRefused, match="needs several nodes, and the cluster or its"):
        kubernetes.submit(request(f"{NAME}1", nodes=2))
    assert [*kubernetes.statuses()] == [NAME]


# The life of an allocation.


def status_of(kubernetes, name=NAME):
    status = kubernetes.statuses()[name]
    return status.state, status.reason, status.nodes, status.has_begun, status.has_ended


@pytest.mark.parametrize("nodes", [1, 2])
def test_an_allocation_waits_runs_and_succeeds(kubernetes, cluster, nodes):
    kubernetes.submit(request(nodes=nodes))
    assert status_of(kubernetes) == ("Pending", None, None, False, False)
    cluster.run(NAME)
    where = ",".join(f"node-{index}" for index in range(nodes))
    assert status_of(kubernetes) == ("Running", None, where, True, False)
    cluster.succeed(NAME)
    assert status_of(kubernetes) == ("Succeeded", None, where, True, True)


def test_the_message_of_the_scheduler_of_kubernetes_is_the_reason(kubernetes, cluster):
    kubernetes.submit(request())
    cluster.leave_pending(NAME, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    reason = "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    assert status_of(kubernetes) == ("Pending", reason, None, False, False)


def test_a_container_that_does_not_start_is_the_reason(kubernetes, cluster):
    kubernetes.submit(request())
    cluster.keep_waiting(NAME, "ImagePullBackOff", 'Back-off pulling image "worker"')
    reason = 'ImagePullBackOff: Back-off pulling image "worker"'
    assert status_of(kubernetes) == ("Pending", reason, "node-0", False, False)
    cluster.keep_waiting(NAME, "CreateContainerConfigError", 'secret "ampcore" not found')
    assert status_of(kubernetes)[1] == 'CreateContainerConfigError: secret "ampcore" not found'
    cluster.keep_waiting(NAME, "ContainerCreating")
    assert status_of(kubernetes)[1] == "ContainerCreating"


def test_while_one_of_several_pods_waits_the_allocation_is_pending(kubernetes, cluster):
    kubernetes.submit(request(nodes=2))
    cluster.run(NAME)
    cluster.pods_of(NAME)[1]["status"] = {"phase": "Pending"}
    assert status_of(kubernetes)[0] == "Pending"
    assert status_of(kubernetes)[3] is True  # one worker has started


@pytest.mark.parametrize("nodes", [1, 2])
def test_what_kueue_says_is_the_reason(kubernetes, cluster, nodes):
    kubernetes.submit(request(queue="fair", nodes=nodes))
    assert status_of(kubernetes)[:2] == ("Suspended", "Kueue has not admitted it yet.")
    message = "couldn't assign flavors to pod set main: insufficient unused quota for cpu"
    cluster.queue(NAME, message)
    assert status_of(kubernetes) == ("Suspended", message, None, False, False)
    cluster.admit(NAME)
    cluster.run(NAME)
    assert status_of(kubernetes)[0] == "Running"


@pytest.mark.parametrize("failure", [None, Failure("GET", "workloads", 403, "Forbidden", "no")])
def test_reasons_that_may_not_be_read_are_left_out(kubernetes, cluster, failure):
    kubernetes.submit(request(queue="fair"))
    if failure is None:
        cluster.installed -= {"workloads"}
    else:
        cluster.failures = [failure]
    assert status_of(kubernetes)[:2] == ("Suspended", "Kueue has not admitted it yet.")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_pod_that_may_not_be_created_is_the_reason(kubernetes, cluster, nodes):
    kubernetes.submit(request(nodes=nodes))
    if nodes == 2:
        cluster.create_pods(NAME)
        for pod in cluster.pods_of(NAME):
            del cluster.objects["pods", pod["metadata"]["name"]]
    name = NAME if nodes == 1 else f"{NAME}-node-0"
    cluster.report(name, 'pods "x" is forbidden: violates PodSecurity "restricted"')
    reason = 'FailedCreate: pods "x" is forbidden: violates PodSecurity "restricted"'
    assert status_of(kubernetes)[:2] == ("Pending", reason)


NOT_STARTED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
    "create failed: unable to start container process: error during container init: exec: "
    '"ampserver": executable file not found in $PATH'
)
LOW_ON_DISK = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 898240Ki."
)
ENDS = {
    "out of memory": (
        lambda cluster: cluster.exit(NAME, 137, "OOMKilled"),
        "OOMKilled: the worker exceeded the memory limit of its pod.",
    ),
    "an exit code": (
        lambda cluster: cluster.exit(NAME, 1, message="Traceback"),
        "Error: the worker has ended with exit code 1: Traceback",
    ),
    "a command that the image does not have": (  # as containerd reports it
        lambda cluster: cluster.exit(NAME, 128, "StartError", NOT_STARTED),
        f"StartError: the worker has ended with exit code 128: {NOT_STARTED}",
    ),
    "an eviction whose reason was overwritten": (  # as the kubelet of 1.28 leaves it
        lambda cluster: cluster.fail(
            NAME,
            {"conditions": [{"type": "DisruptionTarget", "status": "True",
                             "reason": "TerminationByKubelet", "message": f"{LOW_ON_DISK} "}]},
        ),
        "TerminationByKubelet: its node ended it: it shuts down, or lacks memory or disk "
        f"({LOW_ON_DISK}).",
    ),
    "a job that was not run": (
        lambda cluster: cluster.exit(NAME, 3, message="{}\nThe job needs the package 'x'.\n"),
        "The job needs the package 'x'.",
    ),
    "an eviction": (
        lambda cluster: cluster.fail(
            NAME, {"reason": "Evicted", "message": "The node was low on resource: memory."}
        ),
        "Evicted: The node was low on resource: memory.",
    ),
    "a lost node": (
        lambda cluster: cluster.fail(
            NAME,
            {"conditions": [{"type": "DisruptionTarget", "status": "True",
                             "reason": "DeletionByTaintManager", "message": "taint"}]},
        ),
        "DeletionByTaintManager: its node is lost, or was tainted (taint).",
    ),
    "the deadline of the pod": (
        lambda cluster: cluster.fail(
            NAME, {"reason": "DeadlineExceeded", "message": "Pod was active too long"}
        ),
        "DeadlineExceeded: Pod was active too long",
    ),
    "an end without a pod": (
        lambda cluster: cluster.end(NAME, "DeadlineExceeded", "Job was active too long"),
        "DeadlineExceeded: Job was active too long",
    ),
}  # fmt: skip


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("kind", ENDS)
def test_the_reason_of_an_end_says_what_has_happened(kubernetes, cluster, kind, nodes):
    end, reason = ENDS[kind]
    kubernetes.submit(request(nodes=nodes))
    cluster.run(NAME)
    end(cluster)
    state, received, *_, has_ended = status_of(kubernetes)
    assert (state, received, has_ended) == ("Failed", reason, True)


@pytest.mark.parametrize("nodes", [1, 2])
def test_what_is_cancelled_drains_and_is_gone(kubernetes, cluster, nodes):
    external_id = kubernetes.submit(request(nodes=nodes))
    cluster.run(NAME)
    for _ in range(2):
        kubernetes.cancel(external_id)
    assert status_of(kubernetes)[:2] == ("Terminating", "It is deleted once its pods have ended.")
    cluster.remove_pods(NAME)
    assert kubernetes.statuses() == {}
    kubernetes.cancel(external_id)  # again: it has ended


def test_only_objects_of_allocations_are_listed(kubernetes, cluster):
    kubernetes.submit(request())
    cluster.find(NAME)["metadata"]["labels"].pop("ampcore/allocation")
    assert kubernetes.statuses() == {}


def test_long_lists_have_pages_and_begin_again_when_a_page_is_gone(kubernetes, cluster):
    names = {f"ampcore-0123456789ab-1-{number}" for number in range(1, 6)}
    for name in sorted(names):
        kubernetes.submit(request(name))
    cluster.page = 2
    assert {*kubernetes.statuses()} == names
    cluster.failures = [Failure("GET", "jobs", 410, "Expired", "The continue token is too old.")]
    assert {*kubernetes.statuses()} == names


@pytest.mark.parametrize("plural", ["jobs", "jobsets", "pods"])
def test_a_list_that_may_not_be_read_says_nothing_of_allocations(kubernetes, cluster, plural):
    kubernetes.submit(request())
    message = f"{plural} is forbidden: User cannot list resource"
    cluster.failures = [Failure("GET", plural, 403, "Forbidden", message)]
    with pytest.raises(BatchSystemUnavailable, match=message):
        kubernetes.statuses()


# The settings.


def read(tmp_path, text):
    file = tmp_path / "kubernetes.yaml"
    file.write_text(text)
    return read_kubernetes_settings(file)


def test_the_settings_in_the_guide_are_valid(tmp_path):
    text = GUIDE.read_text()
    [block] = re.findall(r"^```yaml\n(# kubernetes.yaml\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    settings = read(tmp_path, block)
    assert settings.queues["gpu"].device_resource == "nvidia.com/gpu"
    assert settings.queues["gpu"].local_queue == "team-a"
    for name, queue in settings.queues.items():
        assert queue.secret_environment["AMPCORE_DATABASE_URL"].secret == "ampcore", name
        for nodes in (1, 2):
            _, document = manifest_of(request(queue=name, nodes=nodes), queue, keep_ended_s=300)
            assert [*check_pod(pod_of(document))] == []


def test_a_queue_replaces_values_of_the_defaults_or_adds_to_them(tmp_path):
    settings = read(
        tmp_path,
        "defaults: {image: a, node_selector: {a: b}, drain_s: 30, environment: {A: '1', B: '1'},\n"
        "  volumes: [{name: files, mount_path: /data, claim: nfs}]}\n"
        "queues:\n"
        "  cpu: {node_selector: {c: d}, environment: {B: '2'},\n"
        "    volumes: [{name: shm, mount_path: /dev/shm, memory: 1Gi}]}\n"
        "  gpu: {image: b, device_resource: null}",
    )
    cpu, gpu = settings.queues["cpu"], settings.queues["gpu"]
    assert (cpu.image, cpu.node_selector, cpu.drain_s) == ("a", {"c": "d"}, 30)
    assert cpu.environment == {"A": "1", "B": "2"}
    assert [volume.name for volume in cpu.volumes] == ["files", "shm"]
    assert (gpu.image, gpu.device_resource) == ("b", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("queues: {}", "/queues: Expected"),
        ("queues: {cpu: {}}", "queues.cpu.image: expected the image of the worker"),
        ("namespace: A b\nqueues: {cpu: {image: a}}", "/namespace: Expected a text that matches"),
        ("queues: {cpu: {image: a, gpus: 1}}", "/queues/cpu/gpus"),
        ("queues: {cpu: {image: a b}}", "/queues/cpu/image"),
        ("queues: {cpu: {image: a, memory_per_device: 64GB}}", "/queues/cpu/memory_per_device"),
        ("queues: {cpu: {image: a, device_resource: gpu}}", "/queues/cpu/device_resource"),
        ("queues: {cpu: {image: a, cpus_per_device: 0}}", "/queues/cpu/cpus_per_device"),
        ("queues: {cpu: {image: a, priority_class: High}}", "/queues/cpu/priority_class"),
        ("queues: {cpu: {image: a, node_selector: {a: 1}}}", "/queues/cpu/node_selector/a"),
        (
            "queues: {cpu: {image: a, tolerations: [{operator: Equal}]}}",
            "/queues/cpu/tolerations/0: Expected a key with the operator Equal",
        ),
        (
            "queues: {cpu: {image: a, volumes: [{name: a, mount_path: /a}]}}",
            "/queues/cpu/volumes/0: Expected exactly one of claim, secret, config_map, disk",
        ),
        (
            "queues: {cpu: {image: a, volumes: [{name: a, mount_path: /a, host_path: /}]}}",
            "/queues/cpu/volumes/0/host_path",
        ),
        (
            "queues: {cpu: {image: a, volumes: [{name: a, mount_path: /tmp, disk: 1Gi}]}}",
            "other paths than /scratch, /tmp",
        ),
        (
            "defaults: {image: a, volumes: [{name: a, mount_path: /a, disk: 1Gi}]}\n"
            "queues: {cpu: {volumes: [{name: a, mount_path: /b, disk: 1Gi}]}}",
            "queues.cpu: expected volumes with different names: a; the defaults count",
        ),
        (
            "queues: {cpu: {image: a, environment: {AMPCORE_WORKER_SLOTS: '2'}}}",
            "queues.cpu.environment.AMPCORE_WORKER_SLOTS: the scheduler sets this variable",
        ),
        ("queues: [", "invalid YAML in line 1"),
    ],
)
def test_a_mistake_in_the_settings_is_named(tmp_path, text, message):
    with pytest.raises(SettingsInvalid) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_password_in_the_settings_is_refused_and_not_repeated(tmp_path):
    for section in ("defaults: {{{}}}\nqueues: {{cpu: {{image: a}}}}",
                    "queues: {{cpu: {{image: a, {}}}}}"):  # fmt: skip
        text = section.format("environment: {AMPCORE_DATABASE_URL: 'postgresql://a:hunter2@b'}")
        with pytest.raises(SettingsInvalid) as caught:
            read(tmp_path, text)
        assert "environment.AMPCORE_DATABASE_URL: expected its Secret and key" in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(SettingsInvalid, match=r"missing\.yaml: No such file or directory"):
        read_kubernetes_settings(tmp_path / "missing.yaml")
