"""What objects of Kubernetes say of an allocation: its state, and why it waits or has ended."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from server.allocations.batch_system import AllocationStatus
from server.allocations.kubernetes_api import MAX_MESSAGE, Object, Resource
from server.allocations.kubernetes_manifests import QUEUE_LABEL

NOT_RUN: Final = 3
"""The exit code of a worker that did not run its job; the last line of its log says why."""
DISRUPTIONS: Final = {
    "PreemptionByScheduler": "a pod of a higher priority has its place",
    "DeletionByTaintManager": "its node is lost, or was tainted",
    "DeletionByPodGC": "its node is gone",
    "EvictionByEvictionAPI": "it was evicted, as when a node is drained",
    "TerminationByKubelet": "its node ended it: it shuts down, or lacks memory or disk",
}
"""What the condition DisruptionTarget of a pod means."""
EXPECTED_WAITING: Final = frozenset({"ContainerCreating", "PodInitializing"})
NOT_ADMITTED: Final = "Kueue has not admitted it yet."


@dataclass
class AllocationObjects:
    """What there is of an allocation in the cluster.

    Args:
        resource: The kind of the object that asks for it.
        manifest: This object, a Job or a JobSet.
        jobs: The Jobs of a JobSet.
        pods: Its pods.
        workload: What Kueue says of it.
        creation_failure: Why its pods cannot be created.
    """

    resource: Resource
    manifest: Object
    jobs: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    workload: Object | None = None
    creation_failure: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.end is not None

    @property
    def end(self) -> Object | None:
        """The condition of its end."""
        return _condition(self.manifest, "Complete", "Completed", "Failed")

    @property
    def is_suspended(self) -> bool:
        """Whether its pods are not to be started yet."""
        return bool(self.manifest["spec"].get("suspend"))


def external_id_of(resource: Resource, name: str) -> str:
    """The id of an allocation, as kubectl names objects: job/NAME or jobset/NAME."""
    return f"{resource.plural.removesuffix('s')}/{name}"


def status_of(objects: AllocationObjects) -> AllocationStatus:
    """The status of an allocation.

    Args:
        objects: What there is of it.
    """
    nodes = sorted({pod["spec"]["nodeName"] for pod in objects.pods if "nodeName" in pod["spec"]})
    reason = _reason(objects)
    return AllocationStatus(
        external_id_of(objects.resource, objects.manifest["metadata"]["name"]),
        _state(objects),
        has_ended=objects.has_ended,
        reason=None if reason is None else reason[:MAX_MESSAGE],
        nodes=",".join(nodes) or None,
        has_begun=any(_phase(pod) != "Pending" for pod in objects.pods),
    )


def _state(objects: AllocationObjects) -> str:
    if (end := objects.end) is not None:
        return "Failed" if end["type"] == "Failed" else "Succeeded"
    if "deletionTimestamp" in objects.manifest["metadata"]:
        return "Terminating"
    if objects.is_suspended:
        return "Suspended"
    phases = [_phase(pod) for pod in objects.pods]
    return "Running" if phases and "Pending" not in phases else "Pending"


def _reason(objects: AllocationObjects) -> str | None:
    end = objects.end
    if end is not None and end["type"] != "Failed":
        return None
    if end is not None:
        return _first(_pod_failures(objects.pods), _ends(objects))
    if "deletionTimestamp" in objects.manifest["metadata"]:
        return "It is deleted once its pods have ended."
    if objects.is_suspended:
        return _first(_admission(objects))
    waiting = (reason for pod in objects.pods for reason in _waiting(pod))
    return _first(waiting, _pod_failures(objects.pods), [objects.creation_failure])


def _first(*reasons: Iterable[str | None]) -> str | None:
    return next((reason for some in reasons for reason in some if reason), None)


def _ends(objects: AllocationObjects) -> Iterator[str]:
    """Why it has failed, first what the Jobs of a JobSet say, which is more than it says itself."""
    for manifest in (*objects.jobs, objects.manifest):
        if (condition := _condition(manifest, "Failed")) is not None:
            yield _described(condition)


def _admission(objects: AllocationObjects) -> Iterator[str]:
    """Why Kueue does not start it."""
    if objects.workload is not None:
        conditions = objects.workload.get("status", {}).get("conditions", [])
        for kind, status in (("QuotaReserved", "False"), ("Admitted", "False")):
            for condition in conditions:
                if (condition["type"], condition["status"]) == (kind, status):
                    yield condition.get("message") or NOT_ADMITTED
    if QUEUE_LABEL in objects.manifest["metadata"].get("labels", {}):
        yield NOT_ADMITTED
    yield "It is suspended."


def _waiting(pod: Object) -> Iterator[str]:
    """Why a pod does not run yet: no node, or its container does not start."""
    if _phase(pod) != "Pending":
        return
    status = pod.get("status", {})
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield _described(condition)
    for container in _containers(status):
        if (waiting := container.get("state", {}).get("waiting")) and "reason" in waiting:
            message = None if waiting["reason"] in EXPECTED_WAITING else waiting.get("message")
            yield _described({"reason": waiting["reason"], "message": message})


def _pod_failures(pods: Collection[Object]) -> Iterator[str]:
    """Why pods have ended, the first cause first: pods that end together follow from it."""
    for find in (_disruption, _memory, _ended_by_kubernetes, _exit_code):
        for pod in pods:
            yield from find(pod)


def _disruption(pod: Object) -> Iterator[str]:
    for condition in pod.get("status", {}).get("conditions", []):
        if (condition["type"], condition["status"]) == ("DisruptionTarget", "True"):
            word, message = condition.get("reason", ""), condition.get("message", "").strip()
            meaning = DISRUPTIONS.get(word, "it was ended")
            yield f"{word}: {meaning}{f' ({message})' if message else ''}."


def _memory(pod: Object) -> Iterator[str]:
    for container in _containers(pod.get("status", {})):
        if container.get("state", {}).get("terminated", {}).get("reason") == "OOMKilled":
            yield "OOMKilled: the worker exceeded the memory limit of its pod."


def _ended_by_kubernetes(pod: Object) -> Iterator[str]:
    """Such as Evicted, DeadlineExceeded, NodeLost, or NodeShutdown."""
    status = pod.get("status", {})
    if status.get("reason"):
        yield _described(status)


def _exit_code(pod: Object) -> Iterator[str]:
    for container in _containers(pod.get("status", {})):
        terminated = container.get("state", {}).get("terminated", {})
        code = terminated.get("exitCode", 0)
        lines = terminated.get("message", "").strip().splitlines()
        if code == NOT_RUN and lines:
            yield lines[-1]
        elif code != 0:
            word = terminated.get("reason") or "Error"
            last = f": {lines[-1]}" if lines else "."  # of its log, or why it was not started
            yield f"{word}: the worker has ended with exit code {code}{last}"


def _containers(status: Mapping[str, Any]) -> Iterator[Object]:
    yield from status.get("initContainerStatuses", [])
    yield from status.get("containerStatuses", [])


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def _condition(manifest: Object, *kinds: str) -> Object | None:
    """The condition of one of these kinds that is true."""
    for condition in manifest.get("status", {}).get("conditions", []):
        if condition["type"] in kinds and condition["status"] == "True":
            return dict(condition)
    return None


def _described(entry: Mapping[str, Any]) -> str:
    """A word of Kubernetes with its message, such as `ImagePullBackOff: Back-off pulling …`."""
    word, message = entry.get("reason") or "", entry.get("message") or ""
    return f"{word}: {message}" if word and message else word or message
