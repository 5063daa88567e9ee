"""The last file of an attempt: what was asked, what came of it, and on what machine."""

from typing import Any

import ampcore
from ampcore.series.jsonable import finite_json
from store.tables import Job
from worker.endings import End


def report(job: Job, end: End, ready: dict[str, Any]) -> dict[str, Any]:
    """A JSON value; `ready` is what the trainer process has said of itself."""
    told: dict[str, Any] = {
        "job_id": job.id,
        "name": job.name,
        "attempt": job.attempt,
        "worker_id": job.worker_id,
        "outcome": end.outcome,
        "reason": end.reason,
        "message": end.message,
        "summary": end.summary,
        "spec": job.spec,
        "versions": {"ampcore": ampcore.__version__, **ready.get("versions", {})},
        "hardware": ready.get("hardware"),
    }
    plain: dict[str, Any] = finite_json(told)
    return plain
