"""The objects of an allocation in Kubernetes: a Job with one pod, or a JobSet with several."""

import math
from decimal import Decimal
from typing import Any, Final

from server.allocations.batch_system import AllocationRequest, SubmissionRefused
from server.allocations.kubernetes_api import Object, Resource
from server.allocations.kubernetes_settings import KubernetesQueue, Volume

JOBS: Final = Resource("/apis/batch/v1", "jobs")
JOB_SETS: Final = Resource("/apis/jobset.x-k8s.io/v1alpha2", "jobsets")
JOB_LABEL: Final = "ampcore/job"
ALLOCATION_LABEL: Final = "ampcore/allocation"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
CREATED_BY: Final = "ampcore/created-by"
CONTAINER: Final = "worker"
REPLICATED_JOB: Final = "node"
MAX_NAME: Final = 63
RANDOM: Final = "-xxxxx"
"""What Kubernetes appends to the names of pods."""
GRACE_AFTER_DRAIN_S: Final = 60
"""What a worker needs after its drain, as docs/reference/settings.md says."""
FIRST_PORT: Final = 42_000
MIN_PORTS: Final = 32
PORTS_OF_DEVICE: Final = 2
USER: Final = 10_001
"""The user of docker/worker.Dockerfile."""
SANDBOX_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
"""What the worker's sandbox needs; see docs/guides/operating.md."""


def labels_of(request: AllocationRequest) -> dict[str, str]:
    """The labels of all objects of an allocation."""
    return {
        "app.kubernetes.io/part-of": "ampcore",
        "app.kubernetes.io/component": "allocation",
        JOB_LABEL: request.job_id,
        ALLOCATION_LABEL: request.name,
    }


def manifest_of(
    request: AllocationRequest, queue: KubernetesQueue, *, keep_ended_s: int
) -> tuple[Resource, Object]:
    """The object that asks for an allocation.

    Args:
        request: What to ask for.
        queue: The settings of its queue.
        keep_ended_s: How long Kubernetes keeps the object after its end.

    Returns:
        The kind of the object, and its manifest.

    Raises:
        SubmissionRefused: Kubernetes does not allow the names of its pods.
    """
    _check_name(request)
    spec: dict[str, Any] = {"ttlSecondsAfterFinished": keep_ended_s}
    if queue.local_queue is not None:
        spec["suspend"] = True  # until Kueue has room for all of its pods
    if request.nodes == 1:
        return JOBS, {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": _metadata(request, queue),
            "spec": {**spec, **_job_spec(request, queue)},
        }
    replicated_job = {
        "name": REPLICATED_JOB,
        "replicas": 1,
        "template": {
            "metadata": {"labels": labels_of(request)},
            "spec": {**_job_spec(request, queue), "completionMode": "Indexed"},
        },
    }
    return JOB_SETS, {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(request, queue),
        "spec": {
            **spec,
            "failurePolicy": {"maxRestarts": 0},
            # Workers find each other in the database, by the addresses of their pods.
            "network": {"enableDNSHostnames": False},
            "replicatedJobs": [replicated_job],
        },
    }


def _check_name(request: AllocationRequest) -> None:
    """Refuse a name with which Kubernetes would create the object and never its pods."""
    pod_name = f"{request.name}{RANDOM}"
    if request.nodes > 1:
        pod_name = f"{request.name}-{REPLICATED_JOB}-0-{request.nodes - 1}{RANDOM}"
    if len(pod_name) > MAX_NAME:
        raise SubmissionRefused(
            f"The names of its pods, such as {pod_name}, would have {len(pod_name)} characters; "
            f"Kubernetes allows {MAX_NAME}."
        )


def _metadata(request: AllocationRequest, queue: KubernetesQueue) -> Object:
    labels = labels_of(request)
    if queue.local_queue is not None:
        labels[QUEUE_LABEL] = queue.local_queue
    return {
        "name": request.name,
        "labels": labels,
        "annotations": {
            CREATED_BY: f"ampserver schedule kubernetes, for job {request.job_id} "
            f"of the queue {request.queue}"
        },
    }


def _job_spec(request: AllocationRequest, queue: KubernetesQueue) -> Object:
    return {
        "parallelism": request.nodes,
        "completions": request.nodes,
        # What fails here is decided by the server, which makes the next allocation.
        "backoffLimit": 0,
        # A pod that drains is not replaced while it still stores files.
        "podReplacementPolicy": "Failed",
        "template": {
            "metadata": {"labels": {**queue.pod_labels, **labels_of(request)}},
            "spec": _pod_spec(request, queue),
        },
    }


def _pod_spec(request: AllocationRequest, queue: KubernetesQueue) -> Object:
    limit_s = request.time_limit_s or queue.time_limit_s
    spec = {
        "restartPolicy": "Never",
        # Of the pod, not of the Job: there, the time in which it waits for a node would count. At
        # its end the worker gets SIGTERM, and has the grace period to store a checkpoint.
        "activeDeadlineSeconds": math.ceil(limit_s) + queue.start_s,
        "terminationGracePeriodSeconds": queue.drain_s + GRACE_AFTER_DRAIN_S,
        "automountServiceAccountToken": False,
        # A Service named ampcore would set AMPCORE_PORT=tcp://…, which is a setting.
        "enableServiceLinks": False,
        # The first process of the pod reaps the orphaned processes of a killed trainer.
        "shareProcessNamespace": True,
        "securityContext": _pod_security(queue),
        "containers": [_container(request, queue)],
        "volumes": [*map(_volume, _volumes(queue))],
        "imagePullSecrets": [{"name": name} for name in queue.image_pull_secrets],
        "nodeSelector": queue.node_selector,
        "tolerations": [entry.model_dump(exclude_none=True) for entry in queue.tolerations],
        "priorityClassName": queue.priority_class,
        "runtimeClassName": queue.runtime_class,
        "serviceAccountName": queue.service_account,
    }
    if queue.custom_code:
        spec["hostUsers"] = False  # root inside is nobody outside
    return {name: value for name, value in spec.items() if value not in (None, [], {})}


def _pod_security(queue: KubernetesQueue) -> Object:
    seccomp = {"seccompProfile": {"type": "RuntimeDefault"}}
    if queue.custom_code:
        return {"runAsUser": 0, "runAsGroup": 0, **seccomp}
    ids = {"runAsUser": USER, "runAsGroup": USER, "fsGroup": USER}
    return {"runAsNonRoot": True, **ids, "fsGroupChangePolicy": "OnRootMismatch", **seccomp}


def _container(request: AllocationRequest, queue: KubernetesQueue) -> Object:
    capabilities: dict[str, Any] = {"drop": ["ALL"]}
    if queue.custom_code:
        capabilities["add"] = [*SANDBOX_CAPABILITIES]
    resources = _resources(request, queue)
    return {
        "name": CONTAINER,
        "image": queue.image,
        "imagePullPolicy": queue.image_pull_policy,
        "command": [*queue.command, "worker", "--job", request.job_id],
        "env": _environment(request, queue),
        "envFrom": [{"secretRef": {"name": name}} for name in queue.environment_from_secrets],
        # Why a worker does not run its job is the last line of its log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": capabilities,
        },
        # Equal, so that Kubernetes evicts such pods last.
        "resources": {"requests": resources, "limits": resources},
        "volumeMounts": [
            {"name": volume.name, "mountPath": volume.mount_path, "readOnly": volume.read_only}
            for volume in _volumes(queue)
        ],
    }


def _resources(request: AllocationRequest, queue: KubernetesQueue) -> dict[str, str]:
    resources = {
        "cpu": str(queue.cpus_per_device * request.devices),
        "memory": _times(queue.memory_per_device, request.devices),
    }
    if queue.device_resource is not None:
        resources[queue.device_resource] = str(request.devices)
    return resources


def _times(quantity: str, count: int) -> str:
    """A multiple of a quantity such as 1.5Gi."""
    number = quantity.rstrip("kMGTPi")
    return f"{Decimal(number) * count:f}{quantity.removeprefix(number)}"


def _environment(request: AllocationRequest, queue: KubernetesQueue) -> list[Object]:
    ports = max(MIN_PORTS, PORTS_OF_DEVICE * request.devices)
    values = {
        **queue.environment,
        "AMPCORE_WORKER_SLOTS": str(request.devices),
        "AMPCORE_WORKER_PORTS": f"{FIRST_PORT}-{FIRST_PORT + ports - 1}",
        "AMPCORE_SCRATCH_DIR": "/scratch",
        "AMPCORE_DRAIN_TIMEOUT_S": str(queue.drain_s),
    }
    if queue.custom_code:  # old container runtimes ignore hostUsers
        values["AMPCORE_BUNDLE_USER_NAMESPACE"] = "required"
    pod_address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        {"name": "AMPCORE_WORKER_ADDRESS", "valueFrom": pod_address},
        *(
            {
                "name": name,
                "valueFrom": {"secretKeyRef": {"name": entry.secret, "key": entry.key}},
            }
            for name, entry in queue.secret_environment.items()
        ),
    ]


def _volumes(queue: KubernetesQueue) -> list[Volume]:
    scratch = Volume(name="scratch", mount_path="/scratch", disk=queue.scratch)
    volumes = [scratch, Volume(name="tmp", mount_path="/tmp", disk="1Gi"), *queue.volumes]  # noqa: S108
    if not any(volume.mount_path.rstrip("/") == "/data" for volume in volumes):
        volumes.append(Volume(name="ampcore-data", mount_path="/data", disk="1Gi"))
    return volumes


def _volume(volume: Volume) -> Object:
    if volume.claim is not None:
        source: Object = {"persistentVolumeClaim": {"claimName": volume.claim}}
    elif volume.secret is not None:
        source = {"secret": {"secretName": volume.secret}}
    elif volume.config_map is not None:
        source = {"configMap": {"name": volume.config_map}}
    elif volume.memory is not None:
        source = {"emptyDir": {"medium": "Memory", "sizeLimit": volume.memory}}
    else:
        source = {"emptyDir": {"sizeLimit": volume.disk}}
    return {"name": volume.name, **source}
