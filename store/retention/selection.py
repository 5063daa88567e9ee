"""What a retention rule selects: jobs, outdated checkpoints, logs, entries of the audit log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import Session

from ampspec.api.retention import MAX_PREVIEW_IDS, RetentionRule
from ampspec.jobs import TERMINAL, State
from store import studies
from store.clock import from_now
from store.files.artifacts import CHECKPOINT
from store.jobs.jobs import is_needed
from store.listing.search_filters import has_label
from store.models.job_references import is_registered
from store.tables import Artifact, AuditEntry, Job, LogRow, Study, StudyJob

DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Match:
    """What a rule would delete: how many, their bytes if they are known, and the first ids."""

    count: int
    size_bytes: int | None
    ids: Sequence[str]


def preview(session: Session, project: str, rule: RetentionRule) -> Match:
    """What the rule would delete now; nothing is changed."""
    if rule.delete == "audit":
        entries = audit_entries(project, rule)
        return Match(_count(session, entries), None, _first(session, entries))
    matching = jobs(project, rule)
    size_bytes = session.scalar(_size(session, project, rule)) or 0
    return Match(_count(session, matching), int(size_bytes), _first(session, matching))


def _size(session: Session, project: str, rule: RetentionRule) -> Select[Any]:
    """The bytes of what the rule deletes of jobs: artifacts of jobs, checkpoints, or logs."""
    if rule.delete == "checkpoints":
        return select(func.sum(outdated_checkpoints(project, rule).subquery().c.size_bytes))
    matching = jobs(project, rule).subquery()
    if rule.delete == "logs":
        size = select(func.sum(_stored_bytes(session)))
        return size.join(matching, matching.c.id == LogRow.job_id)
    return select(func.sum(Artifact.size_bytes)).join(matching, matching.c.id == Artifact.job_id)


def jobs(project: str, rule: RetentionRule) -> Select[Any, Any]:
    """The ids of jobs of which the rule deletes something, those that ended first at the start."""
    conditions = _conditions(project, rule)
    match rule.delete:
        case "jobs":
            conditions.append(~is_registered(Job.id))
        case "checkpoints":
            outdated = outdated_checkpoints(project, rule).subquery()
            conditions.append(Job.id.in_(select(outdated.c.job_id)))
        case "logs":
            conditions.append(select(LogRow.seq).where(LogRow.job_id == Job.id).exists())
    ordered = select(Job.id, Job.finished_at).where(*conditions)
    return ordered.order_by(Job.finished_at, Job.id)


def outdated_checkpoints(project: str, rule: RetentionRule) -> Select[Any]:
    """The job, path and size of the checkpoints of jobs that are older than the newest `keep`."""
    newest_first = func.row_number().over(
        partition_by=Artifact.job_id, order_by=Artifact.seq.desc()
    )
    ranked = (
        select(Artifact.job_id, Artifact.path, Artifact.size_bytes, newest_first.label("place"))
        .join(Job, Job.id == Artifact.job_id)
        .where(Artifact.kind == CHECKPOINT, *_conditions(project, rule))
        .subquery()
    )
    columns = (ranked.c.job_id, ranked.c.path, ranked.c.size_bytes)
    return select(*columns).where(ranked.c.place > rule.keep)


def audit_entries(project: str, rule: RetentionRule) -> Select[Any]:
    """The ids of the entries of the audit log that the rule deletes, the oldest first."""
    is_old = AuditEntry.at < from_now(-rule.after_days * DAY_S)
    statement = select(AuditEntry.id).where(AuditEntry.project == project, is_old)
    return statement.order_by(AuditEntry.id)


def _conditions(project: str, rule: RetentionRule) -> list[ColumnElement[bool]]:
    """Of jobs of the project that ended long enough ago, match, and are needed by nothing."""
    states = [State(state) for state in rule.states] or sorted(TERMINAL)
    excluded = [has_label(Job, key, value) for key, value in _labels(rule.except_labels)]
    needing_study = (
        select(StudyJob.key)
        .join(Study, Study.id == StudyJob.study_id)
        .where(StudyJob.job_id == Job.id, Study.state.in_(studies.UNFINISHED))
        .correlate(Job)
        .exists()
    )
    return [
        Job.project == project,
        Job.purge_at.is_(None),
        Job.state.in_(states),
        Job.finished_at < from_now(-rule.after_days * DAY_S),
        *(has_label(Job, key, value) for key, value in _labels(rule.labels)),
        *([~or_(*excluded)] if excluded else []),
        ~is_needed(Job.id),
        ~needing_study,
    ]


def _labels(labels: Mapping[str, str | None]) -> Sequence[tuple[str, str | None]]:
    return list(labels.items())


def _stored_bytes(session: Session) -> ColumnElement[int]:
    """The bytes of a log's text: in PostgreSQL as it is stored, without reading it."""
    if session.get_bind().dialect.name == "postgresql":
        return func.pg_column_size(LogRow.text)
    return func.length(LogRow.text)


def _count(session: Session, statement: Select[Any]) -> int:
    rows = statement.order_by(None).subquery()
    return session.scalar(select(func.count()).select_from(rows)) or 0


def _first(session: Session, statement: Select[Any]) -> list[str]:
    return [str(row[0]) for row in session.execute(statement.limit(MAX_PREVIEW_IDS))]
