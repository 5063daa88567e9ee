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
    from ampclient.assertions import (
        InvalidAssertion,
    )
    from ampclient.checks import (
        Check,
        Checks,
    )
    from ampclient.client import (
        AsyncClient,
        Client,
    )
    from ampclient.comparison import (
        ComparedJob,
        Comparison,
    )
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
    from ampclient.evaluations import (
        Evaluations,
    )
    from ampclient.job import (
        AsyncJob,
        Job,
    )
    from ampclient.step_sample import (
        ScaleChanges,
        SkippedSteps,
        StepSample,
    )
    from ampclient.stream_events import (
        StepsEvent,
    )
    from ampclient.tracking.run import (
        TrackedRun,
    )
    from ampcore.api.artifacts import (
        Artifact,
    )
    from ampcore.api.attempts import (
        Attempt,
        Rank,
    )
    from ampcore.api.audit import (
        AuditEntry,
    )
    from ampcore.api.base import (
        UnknownState,
    )
    from ampcore.api.catalog import (
        Policy,
        SpecKind,
    )
    from ampcore.api.comparison import (
        Difference,
        Result,
    )
    from ampcore.api.events import (
        JobEvent,
    )
    from ampcore.api.files import (
        ListedFile,
        StoredFile,
    )
    from ampcore.api.jobs import (
        Latest,
        Summary,
    )
    from ampcore.api.logs import (
        LogEntry,
    )
    from ampcore.api.projects import (
        Project,
    )
    from ampcore.api.ranges import (
        Ranges,
    )
    from ampcore.api.runs import (
        RunStatus,
    )
    from ampcore.api.service import (
        ServerVersion,
    )
    from ampcore.api.session import (
        Session,
    )
    from ampcore.api.steps import (
        AttemptRange,
    )
    from ampcore.api.studies import (
        Study,
    )
    from ampcore.api.tokens import (
        CreatedToken,
        Token,
    )
    from ampcore.api.validation import (
        Finding,
        Validation,
    )
    from ampcore.api.workers import (
        Worker,
    )
    from ampcore.spec import (
        JobSpec,
        Problem,
        State,
    )
    from ampcore.telemetry import (
        StepBlock,
    )

_HOMES = {
    "AmpcoreError": "ampclient.errors",
    "Artifact": "ampcore.api.artifacts",
    "AsyncClient": "ampclient.client",
    "AsyncJob": "ampclient.job",
    "Attempt": "ampcore.api.attempts",
    "AttemptRange": "ampcore.api.steps",
    "AuditEntry": "ampcore.api.audit",
    "BadRequest": "ampclient.errors",
    "Check": "ampclient.checks",
    "Checks": "ampclient.checks",
    "Client": "ampclient.client",
    "ComparedJob": "ampclient.comparison",
    "Comparison": "ampclient.comparison",
    "Conflict": "ampclient.errors",
    "ConnectionFailed": "ampclient.errors",
    "CreatedToken": "ampcore.api.tokens",
    "Dataset": "ampcore.api.datasets",
    "DatasetQuotaExceeded": "ampclient.errors",
    "DatasetVersion": "ampcore.api.datasets",
    "Difference": "ampcore.api.comparison",
    "DigestMismatch": "ampclient.errors",
    "Evaluations": "ampclient.evaluations",
    "Finding": "ampcore.api.validation",
    "Forbidden": "ampclient.errors",
    "InvalidAssertion": "ampclient.assertions",
    "InvalidRequest": "ampclient.errors",
    "InvalidSpec": "ampclient.errors",
    "Job": "ampclient.job",
    "JobEvent": "ampcore.api.events",
    "JobFailed": "ampclient.errors",
    "JobSpec": "ampcore.spec",
    "Latest": "ampcore.api.jobs",
    "ListedFile": "ampcore.api.files",
    "LogEntry": "ampcore.api.logs",
    "NotConfigured": "ampclient.errors",
    "NotFound": "ampclient.errors",
    "OutcomeUnknown": "ampclient.errors",
    "PayloadTooLarge": "ampclient.errors",
    "Policy": "ampcore.api.catalog",
    "Problem": "ampcore.spec",
    "Project": "ampcore.api.projects",
    "QuotaExceeded": "ampclient.errors",
    "RequestInFlight": "ampclient.errors",
    "Rank": "ampcore.api.attempts",
    "Ranges": "ampcore.api.ranges",
    "RawResponse": "ampclient._raw_response",
    "Result": "ampcore.api.comparison",
    "RunStatus": "ampcore.api.runs",
    "ScaleChanges": "ampclient.step_sample",
    "ServerError": "ampclient.errors",
    "ServerVersion": "ampcore.api.service",
    "Session": "ampcore.api.session",
    "SkippedSteps": "ampclient.step_sample",
    "SpecKind": "ampcore.api.catalog",
    "SpecNotLoaded": "ampclient.errors",
    "State": "ampcore.spec",
    "StatusError": "ampclient.errors",
    "StepBlock": "ampcore.telemetry",
    "StepSample": "ampclient.step_sample",
    "StepsEvent": "ampclient.stream_events",
    "StepsMissing": "ampclient.errors",
    "StoredFile": "ampcore.api.files",
    "Study": "ampcore.api.studies",
    "Summary": "ampcore.api.jobs",
    "Token": "ampcore.api.tokens",
    "TooManyRequests": "ampclient.errors",
    "TrackedRun": "ampclient.tracking.run",
    "Unauthorized": "ampclient.errors",
    "Unavailable": "ampclient.errors",
    "UnexpectedResponse": "ampclient.errors",
    "UnknownState": "ampcore.api.base",
    "Validation": "ampcore.api.validation",
    "WaitTimeout": "ampclient.errors",
    "Worker": "ampcore.api.workers",
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
