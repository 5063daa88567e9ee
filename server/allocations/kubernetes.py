"""Kubernetes, by its API: Jobs with one pod, JobSets with several, and the queues of Kueue.

The name of an allocation is that of its object, so that Kubernetes accepts it once: a second
attempt to create it finds the first one.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import httpx

from server.allocations.batch_system import (
    AllocationRequest,
    AllocationStatus,
    BatchSystemUnavailable,
    SubmissionRefused,
)
from server.allocations.kubernetes_api import ApiError, KubernetesApi, Object, Resource
from server.allocations.kubernetes_credentials import Cluster, find_cluster
from server.allocations.kubernetes_manifests import (
    ALLOCATION_LABEL,
    JOB_LABEL,
    JOB_SETS,
    JOBS,
    manifest_of,
)
from server.allocations.kubernetes_settings import KubernetesSettings
from server.allocations.kubernetes_statuses import AllocationObjects, external_id_of, status_of

log = logging.getLogger(__name__)

PODS: Final = Resource("/api/v1", "pods")
EVENTS: Final = Resource("/api/v1", "events")
KUEUE: Final = "kueue.x-k8s.io"
RESOURCES: Final = {external_id_of(kind, ""): kind for kind in (JOBS, JOB_SETS)}
MISSING: Final = (httpx.codes.NOT_FOUND, httpx.codes.FORBIDDEN)


class Kubernetes:
    """A namespace of a cluster in which this user may create Jobs.

    Args:
        settings: The queues, and what their pods are like.
        cluster: Says how the API is reached; None: as the settings say.
    """

    engine: Final = "kubernetes"

    def __init__(
        self, settings: KubernetesSettings, cluster: Callable[[], Cluster] | None = None
    ) -> None:
        self._settings = settings
        cluster = cluster or partial(find_cluster, settings.kubeconfig, settings.context)
        self._api = KubernetesApi(cluster, settings.namespace)
        self._uses_kueue = any(queue.local_queue for queue in settings.queues.values())
        self._reported: set[str] = set()

    submission_s: Final = 0.0

    def submit(self, request: AllocationRequest) -> str:
        """Create the Job or JobSet of an allocation, or find the one that there is."""
        resource, manifest = manifest_of(
            request,
            self._settings.queues[request.queue],
            keep_ended_s=self._settings.keep_ended_s,
        )
        try:
            self._api.create(resource, manifest)
        except ApiError as error:
            if error.status_code == httpx.codes.CONFLICT:
                self._adopt(resource, request, error)
            elif error.status_code == httpx.codes.NOT_FOUND and resource is JOB_SETS:
                raise SubmissionRefused(
                    "The job needs several nodes, and the cluster or its namespace "
                    f"{self._api.namespace} has no JobSets (jobset.x-k8s.io/v1alpha2): {error}"
                ) from error
            else:
                raise SubmissionRefused(str(error)) from error
        return external_id_of(resource, request.name)

    def statuses(self) -> Mapping[str, AllocationStatus]:
        """The allocations in the namespace."""
        try:
            allocations = self._allocations()
            self._add_pods(allocations)
        except ApiError as error:  # such as 403: nothing is known then
            raise BatchSystemUnavailable(str(error)) from error
        self._add_workloads(allocations.values())
        self._add_creation_failures(allocations)
        return {name: status_of(objects) for name, objects in allocations.items()}

    def cancel(self, external_id: str) -> None:
        """Delete an allocation; its workers get SIGTERM, and begin their drain."""
        kind, _, name = external_id.partition("/")
        try:
            self._api.delete(RESOURCES[f"{kind}/"], name)
        except ApiError as error:
            if error.status_code != httpx.codes.NOT_FOUND:
                raise BatchSystemUnavailable(str(error)) from error

    def close(self) -> None:
        """Close the connections to the API."""
        self._api.close()

    def _adopt(self, resource: Resource, request: AllocationRequest, conflict: ApiError) -> None:
        """Take what has the name of the request for the request, if it is."""
        if conflict.reason != "AlreadyExists":  # a quota has changed meanwhile, say
            raise BatchSystemUnavailable(str(conflict)) from conflict
        try:
            metadata = self._api.read(resource, request.name)["metadata"]
        except ApiError as error:
            raise BatchSystemUnavailable(str(error)) from error
        if metadata.get("labels", {}).get(JOB_LABEL) != request.job_id:
            raise SubmissionRefused(
                f"{external_id_of(resource, request.name)} exists, and belongs to something else."
            ) from conflict
        log.info("%s was submitted before", external_id_of(resource, request.name))

    def _allocations(self) -> dict[str, AllocationObjects]:
        """The objects that ask for allocations, by the names of these."""
        jobs = self._api.list_objects(JOBS, labels=ALLOCATION_LABEL)
        allocations = {
            manifest["metadata"]["name"]: AllocationObjects(resource, manifest)
            for resource, manifests in ((JOBS, jobs), (JOB_SETS, self._job_sets()))
            for manifest in manifests
            if _allocation_of(manifest) == manifest["metadata"]["name"]
        }
        for job in jobs:
            objects = allocations.get(_allocation_of(job))
            if objects is not None and objects.manifest is not job:
                objects.jobs.append(job)
        return allocations

    def _job_sets(self) -> list[Object]:
        try:
            return self._api.list_objects(JOB_SETS, labels=ALLOCATION_LABEL)
        except ApiError as error:
            if error.status_code != httpx.codes.NOT_FOUND:
                raise
        return []  # JobSet is not installed

    def _add_pods(self, allocations: Mapping[str, AllocationObjects]) -> None:
        if not any(not objects.is_suspended for objects in allocations.values()):
            return
        for pod in self._api.list_objects(PODS, labels=ALLOCATION_LABEL):
            if (objects := allocations.get(_allocation_of(pod))) is not None:
                objects.pods.append(pod)

    def _add_workloads(self, allocations: Iterable[AllocationObjects]) -> None:
        """Add what Kueue says of suspended objects, where it may be read."""
        by_uid = {
            objects.manifest["metadata"]["uid"]: objects
            for objects in allocations
            if objects.is_suspended
        }
        if not by_uid or not self._uses_kueue:
            return
        try:
            version, *_ = self._api.versions(KUEUE)
            workloads = self._api.list_objects(Resource(f"/apis/{KUEUE}/{version}", "workloads"))
        except ApiError as error:
            self._report_missing("workloads of Kueue", error)
            return
        for workload in workloads:
            for owner in workload["metadata"].get("ownerReferences", []):
                if (objects := by_uid.get(owner["uid"])) is not None:
                    objects.workload = workload

    def _add_creation_failures(self, allocations: Mapping[str, AllocationObjects]) -> None:
        """Add why there are no pods of a Job: a quota, or a rule of the namespace."""
        without_pods = {
            name: objects
            for name, objects in allocations.items()
            if not (objects.pods or objects.has_ended or objects.is_suspended)
        }
        if not without_pods:
            return
        try:
            events = self._api.list_objects(
                EVENTS, fields="involvedObject.kind=Job,reason=FailedCreate"
            )
        except ApiError as error:
            self._report_missing("events", error)
            return
        by_job = dict(without_pods)
        for objects in without_pods.values():
            by_job.update({job["metadata"]["name"]: objects for job in objects.jobs})
        for event in events:
            if (name := event["involvedObject"].get("name")) in by_job:
                by_job[name].creation_failure = f"FailedCreate: {event.get('message') or ''}"

    def _report_missing(self, what: str, error: ApiError) -> None:
        """Log once that reasons are not complete."""
        if error.status_code not in MISSING:
            raise BatchSystemUnavailable(str(error)) from error
        if what not in self._reported:
            self._reported.add(what)
            log.warning("the %s cannot be read, so some reasons are unknown: %s", what, error)


def _allocation_of(manifest: Object) -> str:
    return str(manifest["metadata"].get("labels", {}).get(ALLOCATION_LABEL, ""))
