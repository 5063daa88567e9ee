"""The database tables (SQLAlchemy models). Queries and transitions are in the other modules."""

from store.tables.access import (
    AuditEntry,
    BrowserSession,
    FormerSecret,
    IdempotencyKey,
    Person,
    PersonSession,
    Project,
    ProjectRetention,
    ProjectStorage,
    ProjectUsage,
    SignIn,
    Token,
)
from store.tables.allocations import Allocation
from store.tables.base import Base, new_id
from store.tables.datasets import Dataset, DatasetUpload, DatasetVersion
from store.tables.files import Artifact, FileRemoval, JobFileLink, ProjectFile
from store.tables.gangs import Gang, GangMember
from store.tables.jobs import QUEUED, Attempt, Job, JobMetric
from store.tables.models import (
    ModelAlias,
    ModelAliasChange,
    ModelVersion,
    RegisteredModel,
)
from store.tables.notifications import Delivery, Subscription
from store.tables.service import Leader, SchemaCompatibility, ServiceCount
from store.tables.studies import Study, StudyJob
from store.tables.telemetry import (
    EVALUATION_TYPE,
    EventRow,
    LogRow,
    RangeRow,
    RunThroughput,
    StepBlockRow,
    StepLevel,
    StepPoints,
)
from store.tables.workers import Worker

__all__ = [
    "EVALUATION_TYPE",
    "QUEUED",
    "Allocation",
    "Artifact",
    "Attempt",
    "AuditEntry",
    "Base",
    "BrowserSession",
    "Dataset",
    "DatasetUpload",
    "DatasetVersion",
    "Delivery",
    "EventRow",
    "FileRemoval",
    "FormerSecret",
    "Gang",
    "GangMember",
    "IdempotencyKey",
    "Job",
    "JobFileLink",
    "JobMetric",
    "Leader",
    "LogRow",
    "ModelAlias",
    "ModelAliasChange",
    "ModelVersion",
    "Person",
    "PersonSession",
    "Project",
    "ProjectFile",
    "ProjectRetention",
    "ProjectStorage",
    "ProjectUsage",
    "RangeRow",
    "RegisteredModel",
    "RunThroughput",
    "SchemaCompatibility",
    "ServiceCount",
    "SignIn",
    "StepBlockRow",
    "StepLevel",
    "StepPoints",
    "Study",
    "StudyJob",
    "Subscription",
    "Token",
    "Worker",
    "new_id",
]
