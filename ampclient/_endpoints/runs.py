"""Requests of tracked runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from ampclient._endpoints.datasets import BYTES
from ampclient._endpoints.request import (
    JsonRequest,
    idempotency_header,
    items_of,
    job_path,
    params,
    quote_path,
)
from ampclient._job.view import JobView
from ampspec.api.job.artifacts import JobImage, JobImageList
from ampspec.api.runs import RunStatus


def create_run(spec: Mapping[str, Any], key: str) -> JsonRequest[JobView]:
    """Create a tracked run; the same key returns the same run."""
    headers = idempotency_header(key)
    return JsonRequest(
        method="POST", path="/runs", body=spec, headers=headers, read=JobView.from_json
    )


def upload_entries(
    run_id: str, first_entry: int, entries: Sequence[Mapping[str, Any]], total_steps: int | None
) -> JsonRequest[RunStatus]:
    """Store entries of a run; entries that are stored already are skipped."""
    body: dict[str, Any] = {"first_entry": first_entry, "entries": list(entries)}
    if total_steps is not None:
        body["total_steps"] = total_steps
    return JsonRequest(
        method="POST", path=_path(run_id, "steps"), body=body, read=RunStatus.from_json
    )


def put_image(
    run_id: str, entry: int, image: Mapping[str, Any], size_bytes: int
) -> JsonRequest[RunStatus]:
    """Store a picture as an entry of a run; its content is sent separately."""
    return JsonRequest(
        method="PUT",
        path=_path(run_id, "images", str(entry)),
        params=params(name=image["name"], step=image["step"], sha256=image["sha256"]),
        headers=[("Content-Type", BYTES), ("Content-Length", str(size_bytes))],
        read=RunStatus.from_json,
    )


def list_images(job_id: str) -> JsonRequest[list[JobImage]]:
    """The pictures of a run."""
    return JsonRequest(method="GET", path=job_path(job_id, "images"), read=items_of(JobImageList))


def resume_run(run_id: str) -> JsonRequest[RunStatus]:
    """Let an ended run go on."""
    return JsonRequest(method="POST", path=_path(run_id, "resume"), read=RunStatus.from_json)


def finish_run(run_id: str, end: Mapping[str, Any]) -> JsonRequest[JobView]:
    """End a run whose entries are all stored."""
    path, headers = _path(run_id, "finish"), idempotency_header()
    return JsonRequest(method="POST", path=path, body=end, headers=headers, read=JobView.from_json)


def _path(run_id: str, *segments: str) -> str:
    return "/".join(["/runs", quote_path(run_id), *segments])
