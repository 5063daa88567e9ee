"""Groups of requests that cost alike: each group has threads of its own, shared by owner."""

import re
from dataclasses import dataclass
from typing import Final

from server.http.access.auth_middleware import SIGN_ON_PATHS
from server.http.access.session_cookie import SAFE_METHODS
from server.http.limits import is_upload


@dataclass(frozen=True)
class RequestGroup:
    """Requests that share threads: how many, and how many of them one token or address gets."""

    name: str
    threads: int
    per_owner: int


SIGN_IN: Final = RequestGroup("sign-in", 3, 2)
READS: Final = RequestGroup("reads", 6, 4)
LISTS: Final = RequestGroup("lists", 4, 2)
STEPS: Final = RequestGroup("steps", 3, 2)
"""Reads that decode many steps: they take processor time and memory."""
DOWNLOADS: Final = RequestGroup("downloads", 4, 2)
"""Until the first bytes are sent; server.http.streaming limits what follows."""
CHANGES: Final = RequestGroup("changes", 6, 4)
PLANS: Final = RequestGroup("plans", 2, 1)
"""Checks, estimates and plans of specs and studies."""
GROUPS: Final = (SIGN_IN, READS, LISTS, STEPS, DOWNLOADS, CHANGES, PLANS)

LIST_PATHS: Final = re.compile(
    r"/api/v1/(?:jobs|studies|audit|workers|tokens|projects|datasets(?:/[^/]+)?|files|models|catalog/[^/]+)"
)
STEPS_PATHS: Final = re.compile(r"/api/v1/(?:compare|jobs/[^/]+/(?:steps|evaluations|ranges))")
DOWNLOAD_PATHS: Final = re.compile(
    r"/api/v1/(?:jobs/[^/]+/artifacts/.+|datasets/[^/]+/versions/[^/]+/content|files/[^/]+/[^/]+)"
)
COMPLETION_PATHS: Final = re.compile(r"/api/v1/datasets/[^/]+/uploads/[^/]+/complete")
"""They read a whole file, in threads of their own (server.http.receive_body)."""
PLAN_PATHS: Final = re.compile(r"/api/v1/(?:studies|studies/estimate|jobs/validate)")
PURE_PLAN_PATHS: Final = frozenset({"/api/v1/studies/estimate", "/api/v1/jobs/validate"})
JOB_PATH: Final = re.compile(r"/api/v1/jobs/[0-9a-f]{12}")
SUBMISSION: Final = ("POST", "/api/v1/jobs")
"""Reads of single jobs share one thread (server.jobs.job_reader), and submissions their own
(server.submissions.submission): to wait for a slot would make their batches smaller."""
SESSION_PATH: Final = "/api/v1/session"
UNLIMITED_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""They share one result among all requests (server.http.admission.shared_result), or need no
thread."""


def group_of(method: str, path: str) -> RequestGroup | None:
    """The group of a request; None if it takes no thread of a group.

    Uploads wait for their clients most of the time; they take a thread for each piece.
    """
    if path in UNLIMITED_PATHS or not path.startswith("/api/") or is_upload(method, path):
        return None
    if COMPLETION_PATHS.fullmatch(path):
        return None
    if (method, path) == SUBMISSION or (method in SAFE_METHODS and JOB_PATH.fullmatch(path)):
        return None
    if path == SESSION_PATH or path in SIGN_ON_PATHS:
        return SIGN_IN
    if method in SAFE_METHODS:
        if LIST_PATHS.fullmatch(path):
            return LISTS
        if DOWNLOAD_PATHS.fullmatch(path):
            return DOWNLOADS
        return STEPS if STEPS_PATHS.fullmatch(path) else READS
    return PLANS if PLAN_PATHS.fullmatch(path) else CHANGES


def changes_nothing(method: str, path: str) -> bool:
    """Whether the request may be abandoned once its client has left."""
    return method in SAFE_METHODS or path in PURE_PLAN_PATHS
