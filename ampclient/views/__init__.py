"""What the server says, as frozen values."""

from ampclient.views.comparison import ComparedJob, Comparison, Difference, Result
from ampclient.views.job import JobView, Latest, Summary
from ampclient.views.records import Artifact, Attempt, JobEvent, LogEntry
from ampclient.views.sample import ScaleChanges, SkippedSteps, StepSample, Stretch
from ampclient.views.service import (
    AuditEntry,
    NewToken,
    Project,
    ServerVersion,
    Session,
    Token,
    Worker,
)
from ampclient.views.spec import Finding, Kind, Policy, Validated
from ampclient.views.view import View

__all__ = [
    "Artifact",
    "Attempt",
    "AuditEntry",
    "ComparedJob",
    "Comparison",
    "Difference",
    "Finding",
    "JobEvent",
    "JobView",
    "Kind",
    "Latest",
    "LogEntry",
    "NewToken",
    "Policy",
    "Project",
    "Result",
    "ScaleChanges",
    "ServerVersion",
    "Session",
    "SkippedSteps",
    "StepSample",
    "Stretch",
    "Summary",
    "Token",
    "Validated",
    "View",
    "Worker",
]
