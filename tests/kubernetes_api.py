"""An HTTP server that plays the API of a Kubernetes cluster.

It keeps Jobs, JobSets, pods, events and Kueue's workloads of one namespace. Requests and responses
have the shapes of the API references of Kubernetes, JobSet and Kueue; tests.kubernetes_cluster
does what its controllers and kubelets would.
"""

import json
import re
import ssl
import threading
import uuid
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
from kubernetes_validate import utils as kubernetes_schemas

from tests.deploy.custom_resources import JOB_SET_REQUEST
from tests.waiting import DEADLINE_S

NAMESPACE: Final = "trainers"
TOKEN: Final = "the token of the scheduler"
KINDS: Final = {
    "jobs": ("batch/v1", "Job"),
    "jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "pods": ("v1", "Pod"),
    "events": ("v1", "Event"),
    "workloads": ("kueue.x-k8s.io/v1beta2", "Workload"),
}
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
PATH: Final = re.compile(
    r"/(?:api|apis)/(?P<version>[^/]+(?:/[^/]+)?)/namespaces/(?P<namespace>[^/]+)"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?"
)

Object = dict[str, Any]


@dataclass
class Failure:
    """What a request gets instead of its answer, once.

    Args:
        method: Of the request.
        plural: The kind of objects.
        code: The status; 0: the connection is closed without a response.
        reason: A word such as `Forbidden`; empty: the body is no Status.
        message: A sentence.
        headers: Of the response.
        is_done: Whether the request has its effect all the same.
    """

    method: str
    plural: str
    code: int
    reason: str = ""
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    is_done: bool = False


def status(code: int, reason: str, message: str) -> Object:
    """A Status, as every error of the API is."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip


def condition(kind: str, value: str = "True", reason: str = "", message: str = "") -> Object:
    """A condition of a status."""
    moment = "2026-11-28T12:00:00Z"
    entry = {"type": kind, "status": value, "reason": reason, "message": message}
    return {**entry, "lastProbeTime": None, "lastTransitionTime": moment}


class ApiServer:
    """The API of one namespace of a cluster, at `url`.

    Args:
        tls: Its certificate; None: it speaks HTTP.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.requests: list[tuple[str, str]] = []
        """The method and the path of each."""
        self.created: list[str] = []
        self.failures: list[Failure] = []
        self.token = TOKEN
        self.installed = set(KINDS)
        self.page: int | None = None
        """How many objects a list has at most; None: as many as the client allows."""
        self.is_silent = threading.Event()
        """While it is set, no request is answered."""
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._tls, self._port = tls, 0
        self.start()

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._stopped.clear()
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), _handler(self))
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """End; connections are refused, and the objects stay."""
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The URL of the API."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://localhost:{self._port}"

    # What the API does.

    def respond(self, method: str, target: str, body: Any, token: str | None) -> tuple[int, Any]:
        """The status and the document of a response; (0, None): none."""
        self.requests.append((method, target))
        if self.is_silent.is_set():
            self._stopped.wait(DEADLINE_S)
        if self._stopped.is_set():
            return 0, None
        if token != self.token:
            return 401, status(401, "Unauthorized", "Unauthorized")
        with self._lock:
            return self._route(method, target, body)

    def _route(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        address = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        if address.path == "/apis/kueue.x-k8s.io" and "workloads" in self.installed:
            versions = [{"version": name} for name in ("v1beta1", "v1beta2")]
            return 200, {"kind": "APIGroup", "versions": versions, "preferredVersion": versions[1]}
        match = PATH.fullmatch(address.path)
        plural = match["plural"] if match else ""
        if match is None or not self._is_served(plural, match["version"]):
            return 404, status(404, "NotFound", "the server could not find the requested resource")
        failure = self._failure(method, plural)
        if failure is not None and not failure.is_done:
            return failure.code, failure
        if method == "POST":
            response = self._create(plural, match["namespace"], body)
        elif method == "DELETE":
            response = self._delete(plural, match["name"])
        elif match["name"]:
            response = self._read(plural, match["name"])
        else:
            response = self._list(plural, match["namespace"], query)
        return response if failure is None else (failure.code, failure)

    def _is_served(self, plural: str, version: str) -> bool:
        return plural in self.installed and KINDS[plural][0] == version

    def _failure(self, method: str, plural: str) -> Failure | None:
        for failure in self.failures:
            if (failure.method, failure.plural) == (method, plural):
                self.failures.remove(failure)
                return failure
        return None

    def _create(self, plural: str, namespace: str, manifest: Object) -> tuple[int, Object]:
        name = manifest["metadata"]["name"]
        if namespace != NAMESPACE:
            return 404, status(404, "NotFound", f'namespaces "{namespace}" not found')
        if (plural, name) in self.objects:
            message = f'{plural}.batch "{name}" already exists'
            return 409, status(409, "AlreadyExists", message)
        if (problem := problem_of(manifest)) is not None:
            kind = manifest["kind"]
            return 422, status(422, "Invalid", f'{kind} "{name}" is invalid: {problem}')
        self.created.append(name)
        self._put(plural, manifest)
        return 201, self.objects[plural, name]

    def _put(self, plural: str, manifest: Object) -> None:
        metadata = {**manifest["metadata"], "uid": str(uuid.uuid4()), "namespace": NAMESPACE}
        document = {"status": {}, **manifest, "metadata": metadata}
        self.objects[plural, metadata["name"]] = document

    def _read(self, plural: str, name: str) -> tuple[int, Object]:
        if (plural, name) in self.objects:
            return 200, self.objects[plural, name]
        return 404, status(404, "NotFound", f'{plural} "{name}" not found')

    def _delete(self, plural: str, name: str) -> tuple[int, Object]:
        code, document = self._read(plural, name)
        if code == 200 and self.pods_of(name):
            document["metadata"]["deletionTimestamp"] = "2026-11-28T12:00:00Z"
        elif code == 200:
            del self.objects[plural, name]
        return code, document

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> tuple[int, Object]:
        items = [
            manifest
            for (kind, _), manifest in sorted(self.objects.items())
            if kind == plural
            and namespace == NAMESPACE
            and _has_label(manifest, query.get("labelSelector"))
            and _has_fields(manifest, query.get("fieldSelector"))
        ]
        first = int(query.get("continue", "0"))
        end = first + (self.page or int(query["limit"]))
        metadata = {"resourceVersion": "1", **({"continue": str(end)} if end < len(items) else {})}
        version, kind = KINDS[plural]
        page = {"apiVersion": version, "kind": f"{kind}List", "metadata": metadata}
        return 200, {**page, "items": items[first:end]}

    def pods_of(self, name: str) -> list[Object]:
        """The pods of an allocation."""
        return [
            manifest
            for (plural, _), manifest in self.objects.items()
            if plural == "pods" and manifest["metadata"]["labels"]["ampcore/allocation"] == name
        ]


# It reads the file with all definitions again for each document.
_read_schemas = cache(kubernetes_schemas.schema_contents)


def check_manifest(manifest: Object, version: str) -> None:
    """Check an object against a version of Kubernetes. Raises ValueError."""
    with patch.object(kubernetes_schemas, "schema_contents", _read_schemas):
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            path = "/".join(map(str, error.absolute_path))
            raise ValueError(f"{path}: {error.message[:300]}") from None


def problem_of(manifest: Object) -> str | None:
    """What the API would refuse in a manifest."""
    name = manifest["metadata"]["name"]
    if not NAME.fullmatch(name):
        return f"metadata.name: Invalid value: {name!r}"
    try:
        if manifest["kind"] == "JobSet":
            check_job_set(manifest, "1.37")
        else:
            check_manifest(manifest, "1.37")
    except ValueError as error:
        return str(error)
    return None


def check_job_set(manifest: Object, version: str) -> None:
    """Check a JobSet, and the Job in it against a version of Kubernetes. Raises ValueError."""
    problems = [error.message for error in JOB_SET_REQUEST.iter_errors(manifest)]
    if problems:
        raise ValueError("; ".join(problems))
    for replicated_job in manifest["spec"]["replicatedJobs"]:
        metadata = {**replicated_job["template"]["metadata"], "name": "of-a-job-set"}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
        job["spec"] = replicated_job["template"]["spec"]
        check_manifest(job, version)


def _has_label(manifest: Object, selector: str | None) -> bool:
    if selector is None:
        return True
    key, _, value = selector.partition("=")
    labels = manifest["metadata"].get("labels", {})
    return key in labels and value in ("", labels[key])


def _has_fields(manifest: Object, selector: str | None) -> bool:
    for pair in (selector or "").split(",") if selector else ():
        path, _, value = pair.partition("=")
        document: Any = manifest
        for key in path.split("."):
            document = document[key]
        if document != value:
            return False
    return True


def _handler(server: ApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            code, document = server.respond(
                self.command, self.path, json.loads(body or "null"), token
            )
            headers: dict[str, str] = {}
            if isinstance(document, Failure):
                headers = document.headers
                text = document.message
                if document.reason:
                    text = json.dumps(status(code, document.reason, document.message))
            else:
                text = json.dumps(document)
            if code == 0:
                self.close_connection = True
                return
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - as http.server calls them

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
