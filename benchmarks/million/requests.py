"""The requests and the background rounds that are measured, by the name of their row."""

from typing import Any, Final

JOB: Final[dict[str, Any]] = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}
STUDY: Final[dict[str, Any]] = {"kind": "precision", "spec": JOB, "options": {"seeds": 2}}

Request = tuple[str, str, Any]
"""Method, path below the root, and body."""


def jobs(query: str) -> Request:
    """A page of the list of jobs."""
    return "GET", f"/api/v1/jobs?limit=50&{query}", None


LISTS: Final[dict[str, Request]] = {
    "newest": jobs("sort=-created_at"),
    "by updated_at": jobs("sort=updated_at"),
    "by -updated_at": jobs("sort=-updated_at"),
    "by name": jobs("sort=name"),
    "by -name": jobs("sort=-name"),
    "by priority": jobs("sort=priority"),
    "by -priority": jobs("sort=-priority"),
    "one project by name": jobs("project=project-3&sort=name"),
    "one project by -updated_at": jobs("project=project-3&sort=-updated_at"),
    "one project by -priority": jobs("project=project-3&sort=-priority"),
    "label of 2 %": jobs("label=team%3Dteam-7"),
    "label of 50 jobs": jobs("label=experiment%3De7"),
    "label of no job": jobs("label=experiment%3Dnone"),
    "label of 50 jobs by name": jobs("label=experiment%3De7&sort=name"),
    "label of 2 %, the oldest jobs": jobs("label=campaign%3Dc0"),
    "any label of this key": jobs("label=team"),
    "q of 8 %": jobs("q=seed7"),
    "q of 0.1 %": jobs("q=lr99-"),
    "q of no job": jobs("q=nothing"),
    "q of two characters": jobs("q=zq"),
    "q is part of an id": jobs("q=c4ca"),
    "q by name": jobs("q=lr99-&sort=name"),
    "policy of 50 %": jobs("policy=mixed_bfloat16"),
    "policy of no job": jobs("policy=mixed_float8"),
    "model of 17 %": jobs("model=gan"),
    "model of no job": jobs("model=vit"),
    "model by name": jobs("model=gan&sort=name"),
    "queued by name": jobs("state=queued&sort=name"),
    "paused by name": jobs("state=paused&sort=name"),
    "studies folded": jobs("fold_studies=true&sort=created_at"),
}
OTHERS: Final[dict[str, Request]] = {
    "metrics": ("GET", "/metrics", None),
    "workers": ("GET", "/api/v1/workers", None),
    "a page of 100 workers": ("GET", "/api/v1/workers?limit=100", None),
    "models": ("GET", "/api/v1/models", None),
    "validate": ("POST", "/api/v1/jobs/validate", JOB),
    "estimate": ("POST", "/api/v1/studies/estimate", STUDY),
    "tokens": ("GET", "/api/v1/tokens", None),
    "a page of 100 tokens": ("GET", "/api/v1/tokens?limit=100", None),
    "audit": ("GET", "/api/v1/audit", None),
    "audit of a token": ("GET", "/api/v1/audit?token_id=t7", None),
    "audit of an unknown token": ("GET", "/api/v1/audit?token_id=none", None),
    "audit of a frequent action": ("GET", "/api/v1/audit?action=job.cancel", None),
    "audit of a rare action": ("GET", "/api/v1/audit?action=worker.drain", None),
    "audit of an unknown action": ("GET", "/api/v1/audit?action=none", None),
    "submit": ("POST", "/api/v1/jobs", JOB),
}

BULK: Final[dict[str, str]] = {
    "cancel": "/api/v1/jobs/cancel?model=gan&state=queued",
    "delete": "/api/v1/jobs/delete?model=gan&state=cancelled",
}
