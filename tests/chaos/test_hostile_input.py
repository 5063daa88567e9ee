"""Hostile requests: the real server answers 4xx, and nothing is written."""

import json
import socket
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import func, select

from store.tables import Base
from tests.chaos import xdist_groups
from tests.chaos.cluster import Cluster
from tests.chaos.reference_run import TINY
from tests.waiting import DEADLINE_S

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]

MEGABYTE = 2**20
CHANGING_TABLES = {"workers", "audit", "step_blocks", "step_levels", "step_points", "file_removals"}
"""Tables that change by themselves, or record refused requests on purpose."""

BODIES = {
    "10 MB": json.dumps({**TINY, "labels": {"x": "y" * 10 * MEGABYTE}}).encode(),
    "deep nesting": b'{"labels":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "a billion epochs": json.dumps({**TINY, "train": {"epochs": 10**9}}).encode(),
    "a huge number": b'{"train": {"epochs": 1' + b"0" * 100_000 + b"}}",
    "a null byte": json.dumps({**TINY, "name": "a\0b"}).encode(),
    "a lone surrogate": b'{"name": "\\ud800"}',
    "no UTF-8": b'{"name": "\xff\xfe"}',
    "NaN": b'{"model": {"kind": "mlp"}, "data": {"kind": "digits"}, "train": {"epochs": NaN}}',
    "a path upwards": json.dumps(
        {"model": {"kind": "mlp"}, "data": {"kind": "npz", "path": "../../etc/passwd"}}
    ).encode(),
}
PATHS = [
    "/api/v1/jobs/../../etc/passwd",
    "/api/v1/jobs/%2e%2e/%2e%2e/etc/passwd",
    "/api/v1/jobs/{id}/artifacts/../../../../etc/passwd",
    "/api/v1/jobs/{id}/artifacts/%2e%2e/%2e%2e/etc/passwd",
    "/api/v1/jobs/{id}/artifacts/..%2f..%2fetc%2fpasswd",
    "/api/v1/jobs/{id}/artifacts/a%00b",
    "/api/v1/jobs/%00",
    "/api/v1/jobs?cursor=%00",
    "/api/v1/jobs?q=%00",
    "/api/v1/jobs?limit=99999999999999999999",
]


def test_a_hostile_body_is_refused_and_changes_nothing(cluster: Cluster) -> None:
    """Mechanisms: the limit on body size, and one strict parser.

    Checked: without BodyLimit in server/app.py 10 MB are read.
    """
    before = counts(cluster)
    [api] = cluster.apis
    for name, body in BODIES.items():
        response = api.http.post(
            "/api/v1/jobs", content=body, headers={"Content-Type": "application/json"}
        )
        assert 400 <= response.status_code < 500, (name, response.status_code, response.text[:200])
        assert (response.status_code == 413) == (name == "10 MB"), name
        assert response.headers["Content-Type"] == "application/problem+json", name
        assert "Traceback" not in response.text
    assert counts(cluster) == before
    assert api.running


def test_hostile_paths_and_headers_are_refused_and_change_nothing(cluster: Cluster) -> None:
    """Mechanisms: the limit on headers, and ids and paths that are checked before use.

    Checked: without HeaderLimit in server/app.py 150 headers are accepted.
    """
    [api] = cluster.apis
    cluster.ensure_workers(0)
    job = cluster.client.jobs.submit(TINY)
    job.cancel()
    before = counts(cluster)
    for path in PATHS:
        status = status_of_raw_get(api.url, cluster.token, path.format(id=job.id))
        assert 400 <= status < 500, (path, status)
    huge = {"X-Huge": "x" * MEGABYTE}
    many = {f"X-{number}": "x" for number in range(150)}
    null = {"X-Null": "a\0b"}
    for headers, expected in ((huge, (400, 431)), (many, (431,)), (null, (400,))):
        status = status_of_raw_get(api.url, cluster.token, "/api/v1/jobs", headers)
        assert status in expected, (next(iter(headers)), status)
    assert counts(cluster) == before
    assert api.http.get("/api/v1/jobs").status_code == 200


def status_of_raw_get(
    url: str, token: str, path: str, headers: dict[str, str] | None = None
) -> int:
    """The status of a GET whose path is sent as it is, without normalization."""
    host, port = url.removeprefix("http://").split(":")
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    lines += ["Connection: close", "", ""]
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
        with suppress(OSError):  # it may close the connection early; the response has arrived
            connection.sendall("\r\n".join(lines).encode())
        response = connection.recv(64)
    assert response.startswith(b"HTTP/1.1 "), response
    return int(response.split()[1])


def counts(cluster: Cluster) -> dict[str, Any]:
    """How many rows each table has."""
    tables = [table for name, table in Base.metadata.tables.items() if name not in CHANGING_TABLES]
    with cluster.database.read() as session:
        return {
            table.name: session.scalar(select(func.count()).select_from(table)) for table in tables
        }
