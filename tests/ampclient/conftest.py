"""A fake server with the HTTP API in memory; only the network and the server are faked."""

import asyncio
import hashlib
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pyarrow as pa
import pytest

from ampclient import AsyncClient, Client
from ampclient._http.backend import AsyncHttpBackend
from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.telemetry.json_values import column_from_json
from tests.ampclient.sync_driver import SyncDriver
from tests.waiting import DEADLINE_S

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
    "examples_per_s": 12300.0,
    "median_examples_per_s": 12345.6,
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
    "/layers": {"items": [KIND]},
    "/data-kinds": {"items": [KIND]},
    "/losses": {"items": [KIND]},
    "/metrics": {"items": [KIND]},
    "/optimizers": {"items": [KIND]},
    "/policies": {"items": [POLICY]},
    "/version": {"version": "9.8.7", "api": "v1", "schema": None},
}
SESSION = {"token_id": "ab12", "token_name": "anna", "role": "member", "project": "vision"}
FIXED["/session"] = {**SESSION, "expires_at": None}
QUEUED_AGAIN = {"resume": ("paused",), "retry": ("failed", "cancelled")}
Responder = Callable[[httpx.Request], httpx.Response]


def problem(status: int, code: str, detail: str, **more: Any) -> httpx.Response:
    title = f"The request is {code}"
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return httpx.Response(
        status,
        json={**document, "code": code, **more},
        headers={"content-type": "application/problem+json"},
    )


def as_file(name: str) -> dict[str, str]:
    return {"content-disposition": f"attachment; filename=\"{name}\"; filename*=UTF-8''{name}"}


def arrow_response(*pages: dict[str, list[Any]]) -> httpx.Response:
    """A response with an Arrow stream: columns by name, one record batch per page."""
    types = {"step": pa.int64(), "skipped": pa.bool_()}
    schema = pa.schema([(name, types.get(name, pa.float32())) for name in pages[0]])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for page in pages:
            columns = [column_from_json(page[field.name]) for field in schema]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    return httpx.Response(200, content=sink.getvalue().to_pybytes(), headers=headers)


def no_such_path(request: httpx.Request) -> httpx.Response:
    return problem(404, "not_found", f"There is nothing at {request.url.path}.")


class FakeServer:
    """Jobs with steps and events; `next_responses` are used, in order, before the normal ones."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.steps: dict[str, list[dict[str, Any]]] = {}
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.ranges: dict[str, dict[str, Any]] = {}
        self.evaluations: dict[str, list[dict[str, Any]]] = {}
        self.changes: dict[str, list[Callable[[], None]]] = {}
        self.attempts: dict[str, list[dict[str, Any]]] = {}
        self.allocations: dict[str, list[dict[str, Any]]] = {}
        self.answer: dict[str, Any] = {}
        """The answer of explanations that have succeeded."""
        self.logs: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        self.streams: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self.comparison: dict[str, Any] = {}
        self.workers: list[dict[str, Any]] = []
        self.tokens: list[dict[str, Any]] = []
        self.projects: dict[str, dict[str, Any]] = {}
        self.audit: list[dict[str, Any]] = []
        self.responses_by_key: dict[str, httpx.Response] = {}
        self.report: dict[str, Any] = {}
        self.requests: list[httpx.Request] = []
        self.next_responses: list[Responder] = []
        self.steps_per_page = 10_000
        self.jobs_per_page = 100
        self.logs_per_page = 1_000

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        responder = self.next_responses.pop(0) if self.next_responses else self.handle
        return responder(request)

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Handle a request normally."""
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return problem(401, "unauthorized", "Expected a valid bearer token.")
        if "idempotency-key" in request.headers:
            return self._idempotent(request)
        return self._handle_new(request)

    def _handle_new(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        if path.startswith("/jobs/") and path != "/jobs/validate":
            return self._handle_job(request, *path.split("/")[2:])
        match request.method, path:
            case "POST", "/jobs":
                return self._submit(request)
            case "POST", "/jobs/validate":
                return self._validate(request)
            case "GET", "/jobs":
                return self._list(request)
            case "GET", "/compare":
                return httpx.Response(200, json=self.comparison)
            case "GET", "/audit":
                return self._audit(request.url.params)
            case "GET", _ if path in FIXED:
                return httpx.Response(200, json=FIXED[path])
        return self._handle_admin(request, *path.strip("/").split("/"))

    def _handle_admin(self, request: httpx.Request, kind: str, *segments: str) -> httpx.Response:
        match kind:
            case "workers":
                return self._worker(*segments)
            case "tokens":
                return self._token(request, *segments)
            case "projects":
                return self._project(request, *segments)
        return no_such_path(request)

    def _handle_job(
        self, request: httpx.Request, job_id: str, action: str = "", *segments: str
    ) -> httpx.Response:
        if job_id not in self.jobs:
            return problem(404, "not_found", f"There is no job {job_id}.")
        if request.method != "GET":
            return self._change(request, self.jobs[job_id], action)
        if action == "":
            self._apply_change(job_id)
            return _with_etag(request, self.jobs[job_id])
        return self._read_part(request, job_id, action, segments)

    def _read_part(
        self, request: httpx.Request, job_id: str, part: str, segments: Sequence[str]
    ) -> httpx.Response:
        match part:
            case "explanations":
                return self._explanations(request, job_id, segments)
            case "steps":
                return self._steps(job_id, request.url.params)
            case "events":
                return self._events(job_id, request.url.params)
            case "evaluations":
                page = {"items": self.evaluations.get(job_id, []), "next": None, "more": False}
                return httpx.Response(200, json=page)
            case "ranges":
                nothing = {"steps": [], "samples": [], "report": None}
                return httpx.Response(200, json=self.ranges.get(job_id, nothing))
            case "attempts":
                return httpx.Response(200, json={"items": self.attempts.get(job_id, [])})
            case "allocations":
                return httpx.Response(200, json={"items": self.allocations.get(job_id, [])})
            case "logs":
                return self._logs(job_id, request.url.params)
            case "artifacts":
                return self._artifacts(request, job_id, "/".join(segments))
            case "stream":
                return self._stream(request, job_id)
        return no_such_path(request)

    def _change(self, request: httpx.Request, job: dict[str, Any], action: str) -> httpx.Response:
        match request.method, action:
            case "PATCH", "":
                job.update(json.loads(request.content))
                return httpx.Response(200, json=job)
            case "DELETE", "":
                if job["state"] not in TERMINAL:
                    return problem(409, "conflict", f"The job is {job['state']}.")
                del self.jobs[job["id"]]
                return httpx.Response(204)
            case "POST", "cancel":
                return self._stop(job, "stopping", "cancelled")
            case "POST", "pause":
                return self._stop(job, "pausing", "paused")
            case "POST", "profile":
                if job["state"] != "running":
                    return problem(409, "conflict", f"The job is {job['state']}.")
                self._profile(job["id"], json.loads(request.content)["steps"])
                return httpx.Response(200, json=job)
            case "POST", ("resume" | "retry"):
                if job["state"] not in QUEUED_AGAIN[action]:
                    return problem(409, "conflict", f"The job is {job['state']}.")
                job["state"] = "queued"
                return httpx.Response(200, json=job)
        return self._derive(request, job, action)

    def _derive(self, request: httpx.Request, job: dict[str, Any], action: str) -> httpx.Response:
        """Make a new job from another one."""
        match request.method, action:
            case "POST", "clone":
                return self._clone(request, job)
            case "POST", "explanations":
                fields = {
                    "explains": job["id"],
                    "explain_step": json.loads(request.content)["step"],
                }
                added = self.add_job(f"{len(self.jobs):06x}", name="explanation", **fields)
                return httpx.Response(201, json=added)
            case "POST", "extend":
                if job["state"] != "succeeded":
                    return problem(409, "conflict", f"The job is {job['state']}.")
                epochs = json.loads(request.content)["epochs"]
                spec = {"train": {"epochs": epochs}}
                added = self.add_job(f"{len(self.jobs):06x}", spec=spec, extends=job["id"])
                return httpx.Response(201, json=added)
        return no_such_path(request)

    def _explanations(
        self, request: httpx.Request, job_id: str, segments: Sequence[str]
    ) -> httpx.Response:
        if list(segments) == ["cost"]:
            step = int(request.url.params["step"])
            return httpx.Response(200, json={"first_step": 0, "steps": step, "seconds": 90.0})
        explaining = [job for job in self.jobs.values() if job.get("explains") == job_id]
        items = [
            {
                **{name: job[name] for name in ("state", "message", "created_at", "finished_at")},
                "job": job["id"],
                "explains": job_id,
                "step": job["explain_step"],
            }
            for job in reversed(explaining)
        ]
        if not segments:
            step = int(request.url.params["step"])
            listed = [item for item in items if item["step"] == step]
            blank = {"attribution": None, "sentence": None}
            return httpx.Response(200, json={"items": [item | blank for item in listed]})
        [explanation] = [item for item in items if [item["job"]] == list(segments)]
        has_answer = explanation["state"] == "succeeded"
        return httpx.Response(
            200, json=explanation | {"answer": self.answer if has_answer else None}
        )

    def add_job(self, job_id: str = "0a1b2c", **fields: Any) -> dict[str, Any]:
        """Add a queued job; `fields` replace its fields."""
        self.jobs[job_id] = {
            "id": job_id,
            "name": "digits-fp16",
            "project": "default",
            "state": "queued",
            "reason": None,
            "message": None,
            "waiting": None,
            "priority": 5,
            "queue": "default",
            "attempt": 0,
            "max_attempts": 3,
            "failures": 0,
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
            "created_by": "anna",
            "cloned_from": None,
            "request_id": None,
            "created_at": NOW,
            "not_before": None,
            "started_at": None,
            "finished_at": None,
            "updated_at": NOW,
            **fields,
        }
        return self.jobs[job_id]

    def _profile(self, job_id: str, steps: int) -> None:
        """Write a report, and the event that names it."""
        facts = {"first_step": 7, "steps": steps, "step_s": 0.01, "busy_s": 0.01}
        run = {"policy": "mixed_float16", "engine": "graph", "device": {"kind": "cpu", "name": ""}}
        shares = dict.fromkeys(("of_promised", "of_matrices", "of_step", "casts", "tensor_cores"))
        tables = {name: [] for name in ("phases", "dtypes", "operations", "kernels", "findings")}
        report = {**facts, **run, **tables, "sixteen_bit": shares}
        name = "attempt-1/profile/step-7/report.json"
        self.files.setdefault(job_id, {})[name] = json.dumps(report).encode()
        event = {"seq": 900, "attempt": 1, "step": 7, "type": "profile", "data": {}}
        self.streams.setdefault(job_id, []).append(("event", {**event, "created_at": NOW}))

    def add_steps(self, job_id: str, count: int, **values: Any) -> None:
        """Add this many steps; `values` replaces columns of the last one."""
        rows = self.steps.setdefault(job_id, [])
        for step in range(len(rows), len(rows) + count):
            rows.append({"step": step, "loss": 1 / (step + 1), "skipped": False})
        rows[-1].update(values)

    def add_logs(self, job_id: str, *texts: str, attempt: int = 1) -> None:
        """Add a log entry for each text."""
        entries = self.logs.setdefault(job_id, [])
        for text in texts:
            entry = {"attempt": attempt, "stream": "stdout", "text": text, "created_at": NOW}
            entries.append({"seq": 10 * (len(entries) + 1), **entry})

    def add_attempt(self, job_id: str, **fields: Any) -> None:
        """Add an attempt; `fields` replace its fields."""
        attempts = self.attempts.setdefault(job_id, [])
        attempts.append(
            {
                "attempt": len(attempts) + 1,
                "worker_id": "w1",
                "waited_s": 1.5,
                "first_step": 0,
                "outcome": None,
                "reason": None,
                "message": None,
                "started_at": NOW,
                "finished_at": None,
                **fields,
            }
        )

    def add_allocation(self, job_id: str, **fields: Any) -> None:
        """Add an allocation that waits in Slurm; `fields` replace its fields."""
        allocations = self.allocations.setdefault(job_id, [])
        number = len(allocations) + 1
        allocations.append(
            {
                "name": f"ampcore-{job_id}-1-{number}",
                "attempt": 1,
                "number": number,
                "engine": "slurm",
                "external_id": f"{4710 + number}",
                "state": "PENDING",
                "reason": None,
                "nodes": None,
                "expected_start_at": None,
                "created_at": NOW,
                "ended_at": None,
                **fields,
            }
        )

    def change(self, job_id: str, steps: int = 0, **fields: Any) -> None:
        """At a later request for the job, add `steps` steps and change the fields."""

        def apply() -> None:
            if steps:
                self.add_steps(job_id, steps)
            self.jobs[job_id].update(fields)

        self.changes.setdefault(job_id, []).append(apply)

    def _apply_change(self, job_id: str) -> None:
        """Apply the next of the changes of a job, as time does on a server."""
        if self.changes.get(job_id):
            self.changes[job_id].pop(0)()

    def _submit(self, request: httpx.Request) -> httpx.Response:
        try:
            spec = JobSpec.parse(json.loads(request.content))
        except SpecValidationError as error:
            return _invalid(error)
        job_id = f"{len(self.jobs):06x}"
        job = self.add_job(
            job_id, name=spec.name, policy=spec.precision.policy, spec=spec.to_json()
        )
        return httpx.Response(201, json=job, headers={"location": f"/api/v1/jobs/{job_id}"})

    def _validate(self, request: httpx.Request) -> httpx.Response:
        try:
            spec = JobSpec.parse(json.loads(request.content))
        except SpecValidationError as error:
            return _invalid(error)
        report = {"findings": [], "figures": None, "layers": []} | self.report
        return httpx.Response(200, json={"spec": spec.to_json(), **report})

    def _list(self, request: httpx.Request) -> httpx.Response:
        params = request.url.params
        states = params.get_list("state")
        ids = params["id"].split(",") if "id" in params else list(self.jobs)
        if "id" in params:
            for job_id in ids:
                self._apply_change(job_id)
        jobs = [job for job_id, job in self.jobs.items() if job_id in ids]
        jobs = [job for job in jobs if not states or job["state"] in states]
        for name in ("policy", "model", "project"):
            jobs = [job for job in jobs if params.get(name) in (None, job[name])]
        for label in params.get_list("label"):
            jobs = [job for job in jobs if label in [f"{k}={v}" for k, v in job["labels"].items()]]
        start = int(params.get("cursor", "0"))
        end = start + min(int(params.get("limit", "50")), self.jobs_per_page)
        cursor = str(end) if end < len(jobs) else None
        left_out = set() if "spec" in params.get_list("fields") else {"spec"}
        items = [{name: job[name] for name in job.keys() - left_out} for job in jobs[start:end]]
        return _with_etag(request, {"items": items, "next_cursor": cursor})

    def _stop(self, job: dict[str, Any], transitional: str, done: str) -> httpx.Response:
        if job["state"] in TERMINAL:
            return problem(409, "conflict", f"The job has {job['state']}.")
        job["state"] = transitional if job["state"] == "running" else done
        return httpx.Response(202 if job["state"] == transitional else 200, json=job)

    def _idempotent(self, request: httpx.Request) -> httpx.Response:
        """Return the stored response if the idempotency key was used before."""
        key = request.headers["idempotency-key"]
        response = self.responses_by_key.get(key) or self._handle_new(request)
        if response.is_success:
            self.responses_by_key[key] = response
        return httpx.Response(
            response.status_code, content=response.content, headers=response.headers
        )

    def _clone(self, request: httpx.Request, job: dict[str, Any]) -> httpx.Response:
        spec = {**job["spec"], **json.loads(request.content).get("set", {})}
        copy = self.add_job(f"{len(self.jobs):06x}", spec=spec, cloned_from=job["id"])
        return httpx.Response(201, json=copy)

    def _project(self, request: httpx.Request, name: str = "") -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"items": [*self.projects.values()]})
        new = {"name": name, "queued": 0, "running": 0, "dataset_bytes": 0, "created_at": NOW}
        new |= {"max_queued": None, "max_running": None, "max_dataset_bytes": None}
        changes = json.loads(request.content)
        self.projects[name] = {**self.projects.get(name, new), **changes}
        return httpx.Response(200, json=self.projects[name])

    def _worker(self, worker_id: str = "", action: str = "") -> httpx.Response:
        if not worker_id:
            return httpx.Response(200, json={"items": self.workers})
        for worker in self.workers:
            if worker["id"] == worker_id:
                worker["draining"] = action == "drain"
                return httpx.Response(202 if action else 200, json=worker)
        return problem(404, "not_found", f"There is no worker {worker_id}.")

    def _token(
        self, request: httpx.Request, token_id: str = "", action: str = ""
    ) -> httpx.Response:
        if request.method == "GET":
            first = int(request.url.params.get("cursor", "0"))
            end = first + int(request.url.params.get("limit", len(self.tokens)))
            following = str(end) if end < len(self.tokens) else None
            page = {"items": self.tokens[first:end], "next_cursor": following}
            return httpx.Response(200, json=page)
        if action == "rotate":
            [rotated] = [token for token in self.tokens if token["id"] == token_id]
            return httpx.Response(200, json={**rotated, "secret": "amp_rotated"})
        if request.method == "POST":
            token = {"id": f"{len(self.tokens):04x}", "created_at": NOW, "created_by": "anna"}
            token |= {"expires_at": None, "revoked_at": None, **json.loads(request.content)}
            self.tokens.append(token)
            return httpx.Response(201, json={**token, "secret": "amp_secret"})
        for token in self.tokens:
            if token["id"] == token_id:
                token["revoked_at"] = NOW
                return httpx.Response(204)
        return problem(404, "not_found", f"There is no token {token_id}.")

    def _audit(self, params: httpx.QueryParams) -> httpx.Response:
        entries = [e for e in self.audit if params.get("action") in (None, e["action"])]
        start = int(params.get("cursor", "0"))
        cursor = str(start + 2) if start + 2 < len(entries) else None
        document = {"items": entries[start : start + 2], "next_cursor": cursor}
        return httpx.Response(200, json=document)

    def _logs(self, job_id: str, params: httpx.QueryParams) -> httpx.Response:
        after = int(params.get("after", "0"))
        entries = [entry for entry in self.logs.get(job_id, []) if entry["seq"] > after]
        if "attempt" in params:
            entries = [entry for entry in entries if entry["attempt"] == int(params["attempt"])]
        if "follow" in params:
            return httpx.Response(200, text="".join(f"{json.dumps(entry)}\n" for entry in entries))
        page = entries[: self.logs_per_page]
        last = page[-1]["seq"] if page else after
        document = {"items": page, "next": last, "more": len(page) < len(entries)}
        return httpx.Response(200, json=document)

    def _stream(self, request: httpx.Request, job_id: str) -> httpx.Response:
        after = int(request.headers["last-event-id"])
        names = {"steps": {"steps"}, "events": {"event", "state"}, "logs": {"log"}}
        kinds = set().union(*(names[kind] for kind in request.url.params.get_list("kinds")))
        lines = ["retry: 1000\n\n: keep-alive\n\n"]
        for name, entry in self.streams.get(job_id, []):
            if name in kinds and entry["seq"] > after:
                lines.append(f"id: {entry['seq']}\nevent: {name}\ndata: {json.dumps(entry)}\n\n")
        if self.jobs[job_id]["state"] in TERMINAL:
            lines.append(f'event: end\ndata: {{"state":"{self.jobs[job_id]["state"]}"}}\n\n')
        content_type = {"content-type": "text/event-stream; charset=utf-8"}
        return httpx.Response(200, text="".join(lines), headers=content_type)

    def _artifacts(self, request: httpx.Request, job_id: str, path: str) -> httpx.Response:
        files = self.files.get(job_id, {})
        if not path:
            items = [artifact(name, content) for name, content in files.items()]
            return httpx.Response(200, json={"items": items})
        if path not in files:
            return problem(404, "not_found", f"There is no file {path}.")
        if "range" not in request.headers:
            return httpx.Response(200, content=files[path])
        start = int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))
        if start >= len(files[path]):
            return problem(416, "range_not_satisfiable", "There are fewer bytes.")
        return httpx.Response(206, content=files[path][start:])

    def _steps(self, job_id: str, params: httpx.QueryParams) -> httpx.Response:
        after = int(params["after"]) if "after" in params else None
        start = max(int(params.get("start", "0")), 0 if after is None else after + 1)
        end = int(params.get("end", "1000000"))
        rows = [row for row in self.steps.get(job_id, []) if start <= row["step"] < end]
        names = ["step", "loss", "skipped"]
        if "columns" in params:
            names = ["step", *(name for name in params["columns"].split(",") if name != "step")]
        if unknown := set(names) - {"step", "loss", "skipped"}:
            return problem(422, "invalid_request", f"There is no column {unknown.pop()}.")
        if params["format"] != "arrow":  # CSV represents every other format
            lines = [names, *([str(row[name]) for name in names] for row in rows)]
            content = "".join(",".join(line) + "\n" for line in lines)
            return httpx.Response(200, text=content, headers=as_file("digits-a.csv"))
        columns = {name: [row[name] for row in rows] for name in names}
        starts = range(0, max(1, len(rows)), self.steps_per_page)
        return arrow_response(
            *({n: c[i : i + self.steps_per_page] for n, c in columns.items()} for i in starts)
        )

    def _events(self, job_id: str, params: httpx.QueryParams) -> httpx.Response:
        after = int(params.get("after", "0"))
        types = params.get_list("type")
        events = [
            event
            for event in self.events.get(job_id, [])
            if event["seq"] > after and (not types or event["type"] in types)
        ]
        page = events[: min(2, int(params["limit"]))]
        document = {
            "items": page,
            "next": page[-1]["seq"] if page else after,
            "more": len(page) < len(events),
        }
        return httpx.Response(200, json=document)


def artifact(path: str, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    kind = "profile" if "/profile/" in path else "model"
    facts = {"path": path, "kind": kind, "step": None, "attempt": 1, "sha256": digest}
    return {**facts, "size_bytes": len(content), "created_at": NOW}


def _with_etag(request: httpx.Request, document: dict[str, Any]) -> httpx.Response:
    tag = f'W/"{hashlib.sha256(json.dumps(document).encode()).hexdigest()}"'
    if request.headers.get("if-none-match") == tag:
        return httpx.Response(304, headers={"etag": tag})
    return httpx.Response(200, json=document, headers={"etag": tag})


def _invalid(error: SpecValidationError) -> httpx.Response:
    errors = [problem.to_json() for problem in error.problems]
    return problem(422, "invalid_spec", str(error), errors=errors)


class Clock:
    """A clock that advances only when a test or the client sleeps; `slept` lists the durations."""

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

    async def sleep(_backend: AsyncHttpBackend, seconds: float) -> None:
        clock.sleep(seconds)

    monkeypatch.setattr(AsyncHttpBackend, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest) -> Any:
    """A sync or an async client; each test runs once with each."""
    return request.getfixturevalue(f"{request.param}_client")


@pytest.fixture
def sync_client(server: FakeServer, clock: Clock) -> Iterator[Client]:
    http_client = httpx.Client(transport=httpx.MockTransport(server))
    with http_client, Client(URL, TOKEN, http_client=http_client) as client:
        yield client


@pytest.fixture
def async_client(server: FakeServer, clock: Clock) -> Iterator[SyncDriver]:
    with asyncio.Runner() as runner:
        http_client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        yield SyncDriver(AsyncClient(URL, TOKEN, http_client=http_client), runner.get_loop())
        runner.run(http_client.aclose())


@pytest.fixture
def respond() -> Callable[..., Responder]:
    """Creates entries of `next_responses`: a status to respond with, or an exception to raise."""

    def make(status: int | Exception, **options: Any) -> Responder:
        def responder(request: httpx.Request) -> httpx.Response:
            if isinstance(status, Exception):
                raise status
            return httpx.Response(status, **options)

        return responder

    return make


@pytest.fixture
def lose_response(server: FakeServer) -> Responder:
    """An entry of `next_responses`: the request is handled, and its response is lost."""

    def responder(request: httpx.Request) -> httpx.Response:
        server.handle(request)
        raise httpx.ReadError("reset")

    return responder


class _CutStream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream that ends early, with an error unless it is `hidden`."""

    def __init__(self, content: bytes, *, hidden: bool) -> None:
        self._content = content
        self._hidden = hidden

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._content), 64):
            yield self._content[start : start + 64]
        if not self._hidden:
            raise httpx.ReadError("reset")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


@pytest.fixture
def cut_response(server: FakeServer) -> Callable[..., Responder]:
    """Creates entries of `next_responses`: responses cut to `size` bytes, or by -`size` bytes.

    A hidden cut looks like the end of the response, as behind a proxy that does not report it.
    """

    def make(size: int, *, hidden: bool = False) -> Responder:
        def responder(request: httpx.Request) -> httpx.Response:
            response = server.handle(request)
            headers = [pair for pair in response.headers.items() if pair[0] != "content-length"]
            stream = _CutStream(response.content[:size], hidden=hidden)
            return httpx.Response(response.status_code, headers=headers, stream=stream)

        return responder

    return make


@pytest.fixture
def arrow() -> Callable[..., Responder]:
    """Creates entries of `next_responses`: an Arrow stream of these pages of columns."""
    return lambda *pages: lambda request: arrow_response(*pages)


class _Handler(BaseHTTPRequestHandler):
    """Forwards HTTP requests from a socket to a FakeServer."""

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
        if response.status_code not in (204, 304) and "content-length" not in response.headers:
            self.send_header("content-length", str(len(response.content)))
        self.end_headers()
        self.wfile.write(response.content)

    # The names that http.server calls.
    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def address(server: FakeServer) -> Iterator[str]:
    """The URL of the fake server on a socket, for clients in other processes."""
    handler = type("Handler", (_Handler,), {"fake": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http_server:
        http_server.daemon_threads = True
        thread = threading.Thread(target=http_server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http_server.server_port}"
        http_server.shutdown()
        thread.join(DEADLINE_S)


@pytest.fixture
def worker() -> Callable[..., dict[str, Any]]:
    """Creates an online worker; keyword arguments replace its fields."""

    def make(**fields: Any) -> dict[str, Any]:
        return {
            "id": "w1",
            "hostname": "box",
            "pid": 7,
            "slots": 2,
            "state": "online",
            "draining": False,
            "version": "0.1.0",
            "queues": ["default", "cpu"],
            "hardware": None,
            "usage": None,
            "jobs": ["a"],
            "started_at": "2030-01-02T03:04:05Z",
            "last_seen_at": "2030-01-02T03:04:06.500000Z",
            **fields,
        }

    return make


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
