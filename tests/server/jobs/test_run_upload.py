"""Uploads of tracked runs: what is refused, and the bounds of what is accepted."""

import base64
import zlib
from typing import get_args

import numpy as np
import pytest

from ampspec.api.runs import MAX_COLUMNS, MAX_ENTRIES, MAX_STEPS, ScaleHealthName
from ampspec.telemetry.scale_health import ScaleHealth
from ampspec.telemetry.steps import array_codec
from server.tracked_runs.run_entries import DEFAULTS
from store.telemetry import steps
from tests.tables import every_row


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.fixture
def run_id(api):
    return api.client.post("/api/v1/runs", json={}).json()["id"]


@pytest.fixture
def upload(api, run_id):
    def send(*entries):
        return api.client.post(f"/api/v1/runs/{run_id}/steps", json={"entries": entries})

    return send


@pytest.fixture
def stored(api, run_id):
    """The stored steps of the run."""

    def read():
        with api.database.read() as session:
            return steps.read(session, run_id, start=0, end=None, limit=100_000).block

    return read


def test_the_health_of_a_loss_scale_has_the_names_of_the_trainer():
    assert set(get_args(ScaleHealthName)) == {str(health) for health in ScaleHealth}


def packed(first_step, **arrays):
    payload = base64.b64encode(array_codec.encode(arrays)).decode()
    return {"type": "steps", "first_step": first_step, "packed": payload}


@every_row(
    "entry",
    [
        {"type": "steps", "first_step": 0},
        {"type": "steps", "first_step": 0, "columns": {}},
        {"type": "steps", "first_step": 0, "columns": {"loss": []}},
        {"type": "steps", "first_step": 0, "columns": {"loss": [1.0], "examples": [1, 2]}},
        {"type": "steps", "first_step": 0, "columns": {"loss": ["inf"]}},
        {"type": "steps", "first_step": 0, "columns": {"step": [1], "loss": [1]}},
        {"type": "steps", "first_step": 1, "columns": {"step": [1, 1], "loss": [1, 2]}},
        {"type": "steps", "first_step": 1, "columns": {"step": [1, 2.5], "loss": [1, 2]}},
        {"type": "steps", "first_step": 1, "columns": {"step": [1, None], "loss": [1, 2]}},
        {"type": "steps", "first_step": 0, "columns": {"~cell": [1]}},
        {"type": "steps", "first_step": 0, "columns": {"examples": [2**31]}},
        {"type": "steps", "first_step": 0, "columns": {"examples": [1.5]}},
        {"type": "steps", "first_step": 0, "columns": {"examples": [-1]}},
        {"type": "steps", "first_step": 0, "columns": {"step_time_s": ["NaN"]}},
        {"type": "steps", "first_step": 0, "columns": {"step_time_s": ["Infinity"]}},
        {"type": "steps", "first_step": 2**53, "columns": {"loss": [1.0]}},
        {"type": "steps", "first_step": -1, "columns": {"loss": [1.0]}},
        {"type": "steps", "first_step": 0, "columns": {f"c{i}": [1] for i in range(65)}},
        {"type": "steps", "first_step": 0, "packed": "no Base64!"},
        {"type": "steps", "first_step": 0, "packed": "AAAA"},
        {"type": "event", "event": "state", "data": {"state": "succeeded"}},
        {"type": "event", "event": "epoch", "step": -1},
        {"type": "log", "stream": "stdin", "text": ""},
        {"type": "other"},
    ],
)
def test_an_invalid_entry_is_refused_and_nothing_of_the_upload_is_stored(upload, stored, entry):
    answer = upload(packed(0, loss=np.zeros(1, np.float32)), entry)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith("/body/entries/1")
    assert len(stored()) == 0


def compressed(header, body=b""):
    return base64.b64encode(zlib.compress(header + b"\n" + body)).decode()


@every_row(
    "payload",
    [
        compressed(b'{"loss": ["|O", 1]}', b"\0" * 8),
        compressed(b'{"loss": ["<M8[s]", 1]}', b"\0" * 8),
        compressed(b'{"loss": ["<f4,<f4", 1]}', b"\0" * 8),
        compressed(b'{"loss": ["<c8", 1]}', b"\0" * 8),
        compressed(b'{"loss": ["<f4", 1000000]}', b"\0" * 8),
        compressed(b'{"loss": ["<f4", 1.5]}', b"\0" * 8),
        compressed(b'{"loss": 3}'),
        compressed(b"[1, 2]"),
        compressed(b"not json"),
        compressed(b'{"~cell": ["<f4", 1]}', b"\0" * 4),
        compressed(b'{"loss": ["<f4", -1]}', b"\0" * 4 * (MAX_STEPS + 1)),
        compressed(b'{"loss": ["<f4", -1]}', b"\0" * 64 * 2**20),
        base64.b64encode(zlib.compress(b'{"loss": ["<f4", 1]}\n\0\0\0\0')[:-4]).decode(),
    ],
)
def test_hostile_packed_columns_are_refused(upload, payload):
    answer = upload({"type": "steps", "first_step": 0, "packed": payload})
    assert answer.status_code == 422, answer.text


def test_an_upload_is_bounded_in_entries_and_steps(upload):
    one = {"type": "log", "text": ""}
    assert upload(*[one] * (MAX_ENTRIES + 1)).status_code == 422
    half = packed(0, loss=np.zeros(MAX_STEPS // 2 + 1, np.float32))
    other = {**half, "first_step": MAX_STEPS}
    assert upload(half, other).status_code == 422
    assert upload(half).status_code == 200


def test_a_wide_block_is_accepted(upload, stored):
    many = {f"c{index}": np.zeros(8, np.float32) for index in range(MAX_COLUMNS)}
    assert upload(packed(0, **many)).status_code == 200
    assert len(stored().names) == MAX_COLUMNS + len(DEFAULTS)


def test_a_body_that_is_too_long_is_refused(upload):
    assert upload({"type": "log", "text": "x" * 300_000}).status_code == 413
