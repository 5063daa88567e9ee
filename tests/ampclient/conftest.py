"""A server of the HTTP contract kept in memory: the network is the one thing that is faked."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from ampclient import Client
from ampcore.spec import JobSpec, SpecInvalid

URL = "http://ampcore.test:8000"
TOKEN = "a-secret-token"
NOW = "2030-01-02T03:04:05Z"
TERMINAL = ("succeeded", "failed", "cancelled")
LATEST = {
    "loss": 0.25,
    "loss_scale": 32768.0,
    "grad_norm": 1.5,
    "learning_rate": 0.001,
    "examples_per_s": 12345.0,
    "skipped": 3,
}
SUMMARY = {
    "steps": 30,
    "skipped": 3,
    "final_loss": 0.125,
    "final_loss_scale": 4096.0,
    "val_loss": 0.2,
    "val_accuracy": 0.95,
    "examples_per_s": 12345.6,
    "parameters": 1000,
    "train_s": 1.5,
    "peak_memory_bytes": 600_000_000,
    "policy": "mixed_float16",
    "engine": "graph",
    "scale_health": "steady",
    "weights_digest": "sha256:00",
    "model_file": "model.keras",
}
KIND = {"kind": "cnn", "description": "…", "schema": {}}
POLICY = {
    "name": "mixed_float16",
    "compute_dtype": "float16",
    "variable_dtype": "float32",
    "loss_scale": "dynamic",
}
FIXED = {
    "/models": {"items": [KIND]},
    "/datasets": {"items": [KIND]},
    "/policies": {"items": [POLICY]},
    "/version": {"version": "9.8.7", "api": "v1"},
}
Answer = Callable[[httpx.Request], httpx.Response]


def problem(status: int, code: str, detail: str, **more: Any) -> httpx.Response:
    title = f"The request is {code}"
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return httpx.Response(
        status,
        json={**document, "code": code, **more},
        headers={"content-type": "application/problem+json"},
    )


class FakeServer:
    """Jobs with steps and events; `next_answers` are given, in order, before any real answer."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.steps: dict[str, list[dict[str, Any]]] = {}
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.changes: dict[str, list[Callable[[], None]]] = {}
        self.workers: list[dict[str, Any]] = []
        self.report: dict[str, Any] = {}
        self.requests: list[httpx.Request] = []
        self.next_answers: list[Answer] = []
        self.steps_per_page = 10_000
        self.jobs_per_page = 100

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.next_answers:
            return self.next_answers.pop(0)(request)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return problem(401, "unauthorized", "Expected a valid bearer token.")
        path = request.url.path.removeprefix("/api/v1")
        if path.startswith("/jobs/") and path != "/jobs/validate":
            return self._job_answer(request, *path.split("/")[2:])
        match request.method, path:
            case "POST", "/jobs":
                return self._submit(request)
            case "POST", "/jobs/validate":
                return self._validate(request)
            case "GET", "/jobs":
                return self._list(request)
            case "GET", "/workers":
                return httpx.Response(200, json={"items": self.workers})
            case "GET", _ if path in FIXED:
                return httpx.Response(200, json=FIXED[path])
        return problem(404, "not_found", f"There is nothing at {request.url.path}.")

    def _job_answer(self, request: httpx.Request, job_id: str, action: str = "") -> httpx.Response:
        if job_id not in self.jobs:
            return problem(404, "not_found", f"There is no job {job_id}.")
        match request.method, action:
            case "GET", "":
                if self.changes.get(job_id):
                    self.changes[job_id].pop(0)()
                return httpx.Response(200, json=self.jobs[job_id])
            case "POST", "cancel":
                return self._cancel(self.jobs[job_id])
            case "GET", "steps":
                return self._steps(job_id, request.url.params)
            case "GET", "events":
                return self._events(job_id, request.url.params)
        return problem(404, "not_found", f"There is nothing at {request.url.path}.")

    def add_job(self, job_id: str = "0a1b2c", **fields: Any) -> dict[str, Any]:
        """A queued job, or one with these fields."""
        self.jobs[job_id] = {
            "id": job_id,
            "name": "digits-fp16",
            "state": "queued",
            "reason": None,
            "message": None,
            "attempt": 0,
            "step": 0,
            "total_steps": None,
            "progress": None,
            "policy": "mixed_float16",
            "model": "cnn",
            "labels": {},
            "worker_id": None,
            "latest": None,
            "summary": None,
            "spec": {},
            "created_at": NOW,
            "started_at": None,
            "finished_at": None,
            "updated_at": NOW,
            **fields,
        }
        return self.jobs[job_id]

    def add_steps(self, job_id: str, count: int, **values: Any) -> None:
        """So many more steps; `values` replaces columns of the last one."""
        rows = self.steps.setdefault(job_id, [])
        for step in range(len(rows), len(rows) + count):
            rows.append({"step": step, "loss": 1 / (step + 1), "skipped": False})
        rows[-1].update(values)

    def change(self, job_id: str, steps: int = 0, **fields: Any) -> None:
        """At a later request for the job: store `steps` more steps and change the fields."""

        def apply() -> None:
            if steps:
                self.add_steps(job_id, steps)
            self.jobs[job_id].update(fields)

        self.changes.setdefault(job_id, []).append(apply)

    def _submit(self, request: httpx.Request) -> httpx.Response:
        try:
            spec = JobSpec.parse(json.loads(request.content))
        except SpecInvalid as error:
            return _invalid(error)
        job_id = f"{len(self.jobs):06x}"
        job = self.add_job(
            job_id, name=spec.name, policy=spec.precision.policy, spec=spec.to_json()
        )
        return httpx.Response(201, json=job, headers={"location": f"/api/v1/jobs/{job_id}"})

    def _validate(self, request: httpx.Request) -> httpx.Response:
        try:
            spec = JobSpec.parse(json.loads(request.content))
        except SpecInvalid as error:
            return _invalid(error)
        report = {"findings": [], "figures": None, "layers": []} | self.report
        return httpx.Response(200, json={"spec": spec.to_json(), **report})

    def _list(self, request: httpx.Request) -> httpx.Response:
        params = request.url.params
        states = params.get_list("state")
        jobs = [job for job in self.jobs.values() if not states or job["state"] in states]
        start = int(params.get("cursor", "0"))
        end = start + min(int(params.get("limit", "50")), self.jobs_per_page)
        cursor = str(end) if end < len(jobs) else None
        return httpx.Response(200, json={"items": jobs[start:end], "next_cursor": cursor})

    def _cancel(self, job: dict[str, Any]) -> httpx.Response:
        if job["state"] in ("succeeded", "failed"):
            return problem(409, "conflict", f"The job has {job['state']}.")
        job["state"] = "stopping" if job["state"] == "running" else "cancelled"
        return httpx.Response(202 if job["state"] == "stopping" else 200, json=job)

    def _steps(self, job_id: str, params: httpx.QueryParams) -> httpx.Response:
        after = int(params["after"]) if "after" in params else None
        start = max(int(params.get("start", "0")), 0 if after is None else after + 1)
        end = int(params.get("end", "1000000"))
        found = [row for row in self.steps.get(job_id, []) if start <= row["step"] < end]
        page = found[: min(self.steps_per_page, int(params["limit"]))]
        names = ["step", "loss", "skipped"]
        if "columns" in params:
            names = ["step", *(name for name in params["columns"].split(",") if name != "step")]
        if unknown := set(names) - {"step", "loss", "skipped"}:
            return problem(422, "invalid_request", f"There is no column {unknown.pop()}.")
        document = {
            "data": {name: [row[name] for row in page] for name in names},
            "steps_per_point": 1,
            "next": page[-1]["step"] if page else after,
            "more": len(page) < len(found),
        }
        return httpx.Response(200, json=document)

    def _events(self, job_id: str, params: httpx.QueryParams) -> httpx.Response:
        after = int(params.get("after", "0"))
        found = [event for event in self.events.get(job_id, []) if event["seq"] > after]
        page = found[: min(2, int(params["limit"]))]
        document = {
            "items": page,
            "next": page[-1]["seq"] if page else after,
            "more": len(page) < len(found),
        }
        return httpx.Response(200, json=document)


def _invalid(error: SpecInvalid) -> httpx.Response:
    errors = [problem.to_json() for problem in error.problems]
    return problem(422, "invalid_spec", str(error), errors=errors)


class Clock:
    """Time that passes only when somebody sleeps; `slept` lists for how long."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "sleep", clock.sleep)
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def client(server: FakeServer, clock: Clock) -> Iterator[Client]:
    http_client = httpx.Client(transport=httpx.MockTransport(server))
    with http_client, Client(URL, TOKEN, http_client=http_client) as client:
        yield client


@pytest.fixture
def answer() -> Callable[..., Answer]:
    """Make an answer for `next_answers`: of a status, or an exception to raise."""

    def make(status: int | Exception, **options: Any) -> Answer:
        def give(request: httpx.Request) -> httpx.Response:
            if isinstance(status, Exception):
                raise status
            return httpx.Response(status, **options)

        return give

    return make


class _Handler(BaseHTTPRequestHandler):
    """Passes real HTTP requests on to a FakeServer."""

    fake: FakeServer
    protocol_version = "HTTP/1.1"

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        url = f"{URL}{self.path}"
        request = httpx.Request(self.command, url, headers=dict(self.headers), content=body)
        response = self.fake(request)
        self.send_response(response.status_code)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.content)

    do_GET = do_POST = _handle  # noqa: N815 - the names that http.server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def address(server: FakeServer) -> Iterator[str]:
    """The address of the fake server on a real socket, for what runs as a process of its own."""
    handler = type("Handler", (_Handler,), {"fake": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http_server:
        http_server.daemon_threads = True
        thread = threading.Thread(target=http_server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http_server.server_port}"
        http_server.shutdown()
        thread.join(timeout=5)


@pytest.fixture
def latest() -> dict[str, Any]:
    return dict(LATEST)


@pytest.fixture
def summary() -> dict[str, Any]:
    return dict(SUMMARY)


@pytest.fixture
def events() -> list[dict[str, Any]]:
    """Five events, the last one with a number that JSON cannot write."""
    numbers = itertools.count(1)
    entries = [("state", None, {"to": "running"})] + [("overflow", 7, {"scale_before": 2.0})] * 3
    entries.append(("evaluation", 29, {"val_loss": "NaN"}))
    return [
        {
            "seq": next(numbers),
            "type": type_,
            "step": step,
            "attempt": 1,
            "created_at": NOW,
            "data": data,
        }
        for type_, step, data in entries
    ]
