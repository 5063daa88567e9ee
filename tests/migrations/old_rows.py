"""Rows of older revisions, for which there are no mapped classes."""

MOMENT = "2026-11-20 10:00:00"
JOB = {
    "project": "default",
    "name": "old",
    "policy": "float32",
    "model": "mlp",
    "labels": "{}",
    "priority": 7,
    "queue": "default",
    "max_attempts": 3,
    "state": "failed",
    "attempt": 1,
    "failures": 1,
    "queued_at": MOMENT,
    "seq": 3,
    "entries_written": 3,
    "step": 6,
    "created_at": MOMENT,
    "updated_at": MOMENT,
}
"""The columns that a job needs in every revision from 0006 on, besides its id and its spec."""
