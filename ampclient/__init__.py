"""ampclient: the Python client of an ampcore server.

Importing this loads nothing else; each name below is loaded when first used.

    from ampclient import Client, JobSpec

    job = Client().jobs.submit(JobSpec.from_file("job.yaml"))
    job = job.wait(progress=True)
    print(job.state, job.summary.final_loss, job.steps()["loss_scale"])

`AsyncClient` is the same for code that awaits.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ampclient.client import AsyncClient, Client
    from ampclient.errors import (
        AmpcoreError,
        BadRequest,
        Conflict,
        ConnectionFailed,
        DigestMismatch,
        Forbidden,
        InFlight,
        InvalidRequest,
        InvalidSpec,
        JobFailed,
        NotConfigured,
        NotFound,
        OutcomeUnknown,
        PayloadTooLarge,
        QuotaExceeded,
        ServerError,
        SpecNotLoaded,
        StatusError,
        StepsMissing,
        TooManyRequests,
        Unauthorized,
        Unavailable,
        UnexpectedAnswer,
        WaitTimeout,
    )
    from ampclient.job import AsyncJob, Job
    from ampclient.told import StepsTold
    from ampclient.views import (
        Artifact,
        Attempt,
        AuditEntry,
        ComparedJob,
        Comparison,
        Difference,
        Finding,
        JobEvent,
        Kind,
        Latest,
        LogEntry,
        NewToken,
        Policy,
        Project,
        Result,
        ScaleChanges,
        ServerVersion,
        Session,
        SkippedSteps,
        StepSample,
        Stretch,
        Summary,
        Token,
        Validated,
        Worker,
    )
    from ampcore.series import StepBlock
    from ampcore.spec import JobSpec, Problem, State

_HOMES = {
    "AmpcoreError": "ampclient.errors",
    "Artifact": "ampclient.views",
    "AsyncClient": "ampclient.client",
    "AsyncJob": "ampclient.job",
    "Attempt": "ampclient.views",
    "AuditEntry": "ampclient.views",
    "BadRequest": "ampclient.errors",
    "Client": "ampclient.client",
    "ComparedJob": "ampclient.views",
    "Comparison": "ampclient.views",
    "Conflict": "ampclient.errors",
    "ConnectionFailed": "ampclient.errors",
    "Difference": "ampclient.views",
    "DigestMismatch": "ampclient.errors",
    "Finding": "ampclient.views",
    "Forbidden": "ampclient.errors",
    "InFlight": "ampclient.errors",
    "InvalidRequest": "ampclient.errors",
    "InvalidSpec": "ampclient.errors",
    "Job": "ampclient.job",
    "JobEvent": "ampclient.views",
    "JobFailed": "ampclient.errors",
    "JobSpec": "ampcore.spec",
    "Kind": "ampclient.views",
    "Latest": "ampclient.views",
    "LogEntry": "ampclient.views",
    "NewToken": "ampclient.views",
    "NotConfigured": "ampclient.errors",
    "NotFound": "ampclient.errors",
    "OutcomeUnknown": "ampclient.errors",
    "PayloadTooLarge": "ampclient.errors",
    "Policy": "ampclient.views",
    "Problem": "ampcore.spec",
    "Project": "ampclient.views",
    "QuotaExceeded": "ampclient.errors",
    "Result": "ampclient.views",
    "ScaleChanges": "ampclient.views",
    "ServerError": "ampclient.errors",
    "ServerVersion": "ampclient.views",
    "Session": "ampclient.views",
    "SkippedSteps": "ampclient.views",
    "State": "ampcore.spec",
    "StatusError": "ampclient.errors",
    "StepBlock": "ampcore.series",
    "StepSample": "ampclient.views",
    "SpecNotLoaded": "ampclient.errors",
    "StepsMissing": "ampclient.errors",
    "StepsTold": "ampclient.told",
    "Stretch": "ampclient.views",
    "Summary": "ampclient.views",
    "Token": "ampclient.views",
    "TooManyRequests": "ampclient.errors",
    "Unauthorized": "ampclient.errors",
    "Unavailable": "ampclient.errors",
    "UnexpectedAnswer": "ampclient.errors",
    "Validated": "ampclient.views",
    "WaitTimeout": "ampclient.errors",
    "Worker": "ampclient.views",
}

__all__ = [
    "AmpcoreError",
    "Artifact",
    "AsyncClient",
    "AsyncJob",
    "Attempt",
    "AuditEntry",
    "BadRequest",
    "Client",
    "ComparedJob",
    "Comparison",
    "Conflict",
    "ConnectionFailed",
    "Difference",
    "DigestMismatch",
    "Finding",
    "Forbidden",
    "InFlight",
    "InvalidRequest",
    "InvalidSpec",
    "Job",
    "JobEvent",
    "JobFailed",
    "JobSpec",
    "Kind",
    "Latest",
    "LogEntry",
    "NewToken",
    "NotConfigured",
    "NotFound",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Policy",
    "Problem",
    "Project",
    "QuotaExceeded",
    "Result",
    "ScaleChanges",
    "ServerError",
    "ServerVersion",
    "Session",
    "SkippedSteps",
    "SpecNotLoaded",
    "State",
    "StatusError",
    "StepBlock",
    "StepSample",
    "StepsMissing",
    "StepsTold",
    "Stretch",
    "Summary",
    "Token",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "Validated",
    "WaitTimeout",
    "Worker",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ampclient' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
