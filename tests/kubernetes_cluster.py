"""A Kubernetes cluster whose controllers, kubelets and Kueue do what a test says."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.kubernetes_api import NAME, TOKEN, ApiServer, Object, condition


class FakeCluster(ApiServer):
    """Moves the objects of the API server through their lives."""

    def find(self, name: str) -> Object:
        """The Job or JobSet of an allocation."""
        [manifest] = [
            self.objects[plural, name]
            for plural in ("jobs", "jobsets")
            if (plural, name) in self.objects
        ]
        return manifest

    def create_pods(self, name: str) -> list[Object]:
        """Create the pods of an allocation, and the Job of a JobSet before: none has a node."""
        manifest = self.find(name)
        job = manifest
        if manifest["kind"] == "JobSet":
            [replicated_job] = manifest["spec"]["replicatedJobs"]
            job = self._create_job(manifest, replicated_job)
        for index in range(job["spec"]["parallelism"]):
            template = job["spec"]["template"]
            indexed = f"-{index}" if job["spec"].get("completionMode") == "Indexed" else ""
            pod_name = f"{job['metadata']['name']}{indexed}-x7k2p"
            assert NAME.fullmatch(pod_name), pod_name
            metadata = {**template["metadata"], "name": pod_name}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            spec = dict(template["spec"])
            self._put("pods", {**pod, "spec": spec, "status": {"phase": "Pending"}})
        return self.pods_of(name)

    def _create_job(self, job_set: Object, replicated_job: Object) -> Object:
        name = f"{job_set['metadata']['name']}-{replicated_job['name']}-0"
        template = replicated_job["template"]
        owner = {"kind": "JobSet", "uid": job_set["metadata"]["uid"], "controller": True}
        metadata = {**template["metadata"], "name": name, "ownerReferences": [owner]}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
        job["spec"] = template["spec"]
        self._put("jobs", job)
        return self.objects["jobs", name]

    def admit(self, name: str) -> None:
        """Start what waits for Kueue."""
        self.find(name)["spec"]["suspend"] = False

    def run(self, name: str) -> None:
        """Start the pods of an allocation, each on a node."""
        for index, pod in enumerate(self.pods_of(name) or self.create_pods(name)):
            pod["spec"]["nodeName"] = f"node-{index}"
            container = {"name": "worker", "ready": True, "state": {"running": {}}}
            pod["status"] = {
                "phase": "Running",
                "conditions": [condition("PodScheduled"), condition("Ready")],
                "containerStatuses": [container],
            }
        self.find(name)["status"]["active"] = len(self.pods_of(name))

    def leave_pending(self, name: str, message: str) -> None:
        """Find no node for the pods."""
        for pod in self.create_pods(name):
            unschedulable = condition("PodScheduled", "False", "Unschedulable", message)
            pod["status"] = {"phase": "Pending", "conditions": [unschedulable]}

    def keep_waiting(self, name: str, reason: str, message: str = "") -> None:
        """Give the pods nodes, on which their containers do not start."""
        self.run(name)
        for pod in self.pods_of(name):
            waiting = {"reason": reason, **({"message": message} if message else {})}
            container = {"name": "worker", "ready": False, "state": {"waiting": waiting}}
            pod["status"] = {
                "phase": "Pending",
                "conditions": [condition("PodScheduled")],
                "containerStatuses": [container],
            }

    def succeed(self, name: str) -> None:
        """End all pods with 0."""
        for pod in self.pods_of(name):
            pod["status"]["phase"] = "Succeeded"
        kind = "Completed" if self.find(name)["kind"] == "JobSet" else "Complete"
        self.find(name)["status"] = {"conditions": [condition(kind)]}

    def exit(self, name: str, code: int, reason: str = "Error", message: str = "") -> None:
        """End the first pod with an exit code, and the allocation with it."""
        terminated = {"exitCode": code, "reason": reason, "message": message}
        container = {"name": "worker", "ready": False, "state": {"terminated": terminated}}
        self.fail(name, {"containerStatuses": [container]})

    def fail(self, name: str, pod_status: Object) -> None:
        """Fail the first pod with this status, and the allocation with it."""
        pod = self.pods_of(name)[0]
        pod["status"] = {"phase": "Failed", **pod_status}
        self.end(name, "BackoffLimitExceeded", "Job has reached the specified backoff limit")

    def end(self, name: str, reason: str, message: str) -> None:
        """Fail an allocation for a reason of its Job."""
        manifest, job = self.find(name), self.objects.get(("jobs", f"{name}-node-0"))
        failed = condition("Failed", "True", reason, message)
        if job is not None:
            job["status"] = {"conditions": [failed], "failed": 1}
            first = (
                f"jobset failed due to one or more job failures (first failed job: {name}-node-0)"
            )
            failed = condition("Failed", "True", "FailedJobs", first)
        manifest["status"] = {"conditions": [failed]}

    def remove_pods(self, name: str) -> None:
        """Let the pods of a deleted allocation end, and it with them."""
        for pod in self.pods_of(name):
            del self.objects["pods", pod["metadata"]["name"]]
        for plural in ("jobs", "jobsets"):
            manifest = self.objects.get((plural, name))
            if manifest is not None and "deletionTimestamp" in manifest["metadata"]:
                del self.objects[plural, name]

    def report(self, job_name: str, message: str) -> None:
        """Report an event: the pods of a Job cannot be created."""
        job = {"kind": "Job", "name": job_name, "apiVersion": "batch/v1"}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{job_name}.1"}}
        details = {"involvedObject": job, "reason": "FailedCreate", "message": message}
        self._put("events", {**event, **details, "type": "Warning"})

    def queue(self, name: str, message: str) -> None:
        """Say as Kueue why there is no quota for an allocation."""
        owner = {"kind": self.find(name)["kind"], "uid": self.find(name)["metadata"]["uid"]}
        metadata = {"name": f"job-{name}", "ownerReferences": [owner]}
        workload = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
        pending = condition("QuotaReserved", "False", "Pending", message)
        workload |= {"metadata": metadata, "status": {"conditions": [pending]}}
        self._put("workloads", workload)


@contextmanager
def fake_cluster(tls: ssl.SSLContext | None = None) -> Iterator[FakeCluster]:
    """A cluster for a test."""
    cluster = FakeCluster(tls)
    try:
        yield cluster
    finally:
        cluster.stop()


def write_kubeconfig(cluster: FakeCluster, folder: Path) -> Path:
    """The path of a kubeconfig of the cluster, with the token in a file."""
    (folder / "token").write_text(TOKEN)
    document = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "scheduler"}}],
        "clusters": [{"name": "test", "cluster": {"server": cluster.url}}],
        "users": [{"name": "scheduler", "user": {"tokenFile": "token"}}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file
