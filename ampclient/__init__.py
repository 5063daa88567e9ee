"""ampclient: the Python client of an ampcore server.

Importing this loads nothing else; each name below is loaded when first used.

    from ampclient import Client, JobSpec

    job = Client().jobs.submit(JobSpec.from_file("job.yaml"))
    job = job.wait(progress=True)
    print(job.state, job.summary.final_loss, job.steps()["loss_scale"])

`AsyncClient` has the same operations for asyncio.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ampclient._raw_response import RawResponse
    from ampclient.assertions import InvalidAssertion
    from ampclient.checks import Check, Checks
    from ampclient.client import AsyncClient, Client
    from ampclient.comparison import ComparedJob, Comparison
    from ampclient.errors import (
        AmpcoreError,
        BadRequest,
        Conflict,
        ConnectionFailed,
        DigestMismatch,
        Forbidden,
        InvalidRequest,
        InvalidSpec,
        JobFailed,
        NotConfigured,
        NotFound,
        OutcomeUnknown,
        PayloadTooLarge,
        QuotaExceeded,
        RequestInFlight,
        ServerError,
        SpecNotLoaded,
        StatusError,
        StepsMissing,
        TooManyRequests,
        Unauthorized,
        Unavailable,
        UnexpectedResponse,
        WaitTimeout,
    )
    from ampclient.evaluations import Evaluations
    from ampclient.job import AsyncJob, Job
    from ampclient.step_sample import ScaleChanges, SkippedSteps, StepSample
    from ampclient.stream_events import StepsEvent
    from ampclient.tracking.run import TrackedRun
    from ampspec.api.audit import AuditEntry
    from ampspec.api.base import UnknownState
    from ampspec.api.catalog import Policy, SpecKind
    from ampspec.api.files import ListedFile, StoredFile
    from ampspec.api.job.artifacts import Artifact
    from ampspec.api.job.attempts import Attempt, Rank
    from ampspec.api.job.comparison import Difference, Result
    from ampspec.api.job.events import JobEvent
    from ampspec.api.job.jobs import Latest, Summary
    from ampspec.api.job.logs import LogEntry
    from ampspec.api.job.ranges import Ranges
    from ampspec.api.job.steps import AttemptRange
    from ampspec.api.job.validation import Finding, Validation
    from ampspec.api.projects import Project
    from ampspec.api.runs import RunStatus
    from ampspec.api.service import ServerVersion
    from ampspec.api.session import Session
    from ampspec.api.studies import Study
    from ampspec.api.tokens import CreatedToken, Token
    from ampspec.api.workers import Worker
    from ampspec.jobs import JobSpec, Problem, State
    from ampspec.telemetry import StepBlock

_HOMES = {
    "AmpcoreError": "ampclient.errors",
    "Artifact": "ampspec.api.job.artifacts",
    "AsyncClient": "ampclient.client",
    "AsyncJob": "ampclient.job",
    "Attempt": "ampspec.api.job.attempts",
    "AttemptRange": "ampspec.api.job.steps",
    "AuditEntry": "ampspec.api.audit",
    "BadRequest": "ampclient.errors",
    "Check": "ampclient.checks",
    "Checks": "ampclient.checks",
    "Client": "ampclient.client",
    "ComparedJob": "ampclient.comparison",
    "Comparison": "ampclient.comparison",
    "Conflict": "ampclient.errors",
    "ConnectionFailed": "ampclient.errors",
    "CreatedToken": "ampspec.api.tokens",
    "Dataset": "ampspec.api.datasets",
    "DatasetQuotaExceeded": "ampclient.errors",
    "DatasetVersion": "ampspec.api.datasets",
    "Difference": "ampspec.api.job.comparison",
    "DigestMismatch": "ampclient.errors",
    "Evaluations": "ampclient.evaluations",
    "Finding": "ampspec.api.job.validation",
    "Forbidden": "ampclient.errors",
    "InvalidAssertion": "ampclient.assertions",
    "InvalidRequest": "ampclient.errors",
    "InvalidSpec": "ampclient.errors",
    "Job": "ampclient.job",
    "JobEvent": "ampspec.api.job.events",
    "JobFailed": "ampclient.errors",
    "JobSpec": "ampspec.jobs",
    "Latest": "ampspec.api.job.jobs",
    "ListedFile": "ampspec.api.files",
    "LogEntry": "ampspec.api.job.logs",
    "NotConfigured": "ampclient.errors",
    "NotFound": "ampclient.errors",
    "OutcomeUnknown": "ampclient.errors",
    "PayloadTooLarge": "ampclient.errors",
    "Policy": "ampspec.api.catalog",
    "Problem": "ampspec.jobs",
    "Project": "ampspec.api.projects",
    "QuotaExceeded": "ampclient.errors",
    "RequestInFlight": "ampclient.errors",
    "Rank": "ampspec.api.job.attempts",
    "Ranges": "ampspec.api.job.ranges",
    "RawResponse": "ampclient._raw_response",
    "Result": "ampspec.api.job.comparison",
    "RunStatus": "ampspec.api.runs",
    "ScaleChanges": "ampclient.step_sample",
    "ServerError": "ampclient.errors",
    "ServerVersion": "ampspec.api.service",
    "Session": "ampspec.api.session",
    "SkippedSteps": "ampclient.step_sample",
    "SpecKind": "ampspec.api.catalog",
    "SpecNotLoaded": "ampclient.errors",
    "State": "ampspec.jobs",
    "StatusError": "ampclient.errors",
    "StepBlock": "ampspec.telemetry",
    "StepSample": "ampclient.step_sample",
    "StepsEvent": "ampclient.stream_events",
    "StepsMissing": "ampclient.errors",
    "StoredFile": "ampspec.api.files",
    "Study": "ampspec.api.studies",
    "Summary": "ampspec.api.job.jobs",
    "Token": "ampspec.api.tokens",
    "TooManyRequests": "ampclient.errors",
    "TrackedRun": "ampclient.tracking.run",
    "Unauthorized": "ampclient.errors",
    "Unavailable": "ampclient.errors",
    "UnexpectedResponse": "ampclient.errors",
    "UnknownState": "ampspec.api.base",
    "Validation": "ampspec.api.job.validation",
    "WaitTimeout": "ampclient.errors",
    "Worker": "ampspec.api.workers",
}

__all__ = [
    "AmpcoreError",
    "Artifact",
    "AsyncClient",
    "AsyncJob",
    "Attempt",
    "AttemptRange",
    "AuditEntry",
    "BadRequest",
    "Check",
    "Checks",
    "Client",
    "ComparedJob",
    "Comparison",
    "Conflict",
    "ConnectionFailed",
    "CreatedToken",
    "Dataset",
    "DatasetQuotaExceeded",
    "DatasetVersion",
    "Difference",
    "DigestMismatch",
    "Evaluations",
    "Finding",
    "Forbidden",
    "InvalidAssertion",
    "InvalidRequest",
    "InvalidSpec",
    "Job",
    "JobEvent",
    "JobFailed",
    "JobSpec",
    "Latest",
    "ListedFile",
    "LogEntry",
    "NotConfigured",
    "NotFound",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Policy",
    "Problem",
    "Project",
    "QuotaExceeded",
    "Ranges",
    "Rank",
    "RawResponse",
    "RequestInFlight",
    "Result",
    "RunStatus",
    "ScaleChanges",
    "ServerError",
    "ServerVersion",
    "Session",
    "SkippedSteps",
    "SpecKind",
    "SpecNotLoaded",
    "State",
    "StatusError",
    "StepBlock",
    "StepSample",
    "StepsEvent",
    "StepsMissing",
    "StoredFile",
    "Study",
    "Summary",
    "Token",
    "TooManyRequests",
    "TrackedRun",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "UnknownState",
    "Validation",
    "WaitTimeout",
    "Worker",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ampclient' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
