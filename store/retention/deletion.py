"""Apply retention rules: delete a bounded number of what one selects, and record it."""

from collections import defaultdict
from typing import Any, Final

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from ampspec.api.retention import RetentionRule
from store.access import audit
from store.access.audit import Actor
from store.files import artifacts, file_removals
from store.jobs import jobs, trash
from store.retention import selection
from store.rows import insert_rows
from store.tables import AuditEntry, Job, LogRow

JOBS_PER_BATCH: Final = 50
ENTRIES_PER_BATCH: Final = 2_000
ACTOR_NAME: Final = "retention"
"""Who the audit log names."""


def apply(session: Session, project: str, rule: RetentionRule, *, trash_s: float) -> bool:
    """Delete a part of what the rule selects, in one transaction.

    Args:
        session: Of the transaction.
        project: Whose jobs.
        rule: The rule.
        trash_s: How long deleted jobs can be restored, in seconds.

    Returns:
        Whether more may be left.
    """
    if rule.delete == "audit":
        return _delete_entries(session, project, rule)
    statement = selection.jobs(project, rule).limit(JOBS_PER_BATCH)
    ids = [row.id for row in session.execute(statement)]
    # Locked in the order of their ids, against deadlocks; one that was queued again drops out.
    selected = select(Job.id).where(Job.id.in_(ids), Job.finished_at.is_not(None))
    locked = session.scalars(selected.order_by(Job.id).with_for_update(of=Job)).all()
    match rule.delete:
        case "jobs":
            details = _delete_jobs(session, locked, trash_s)
        case "checkpoints":
            details = _delete_checkpoints(session, project, rule, locked)
        case _:
            details = _delete_logs(session, locked)
    entries = [
        audit.entry_values(
            _actor(project), f"retention.{rule.delete}", job_id, project=project, **data
        )
        for job_id, data in details.items()
    ]
    if entries:
        insert_rows(session, AuditEntry, *entries)
    return len(ids) == JOBS_PER_BATCH and bool(entries)


def _delete_jobs(session: Session, ids: Any, trash_s: float) -> dict[str, dict[str, Any]]:
    if trash_s > 0:
        return {job_id: {} for job_id in sorted(trash.move_all(session, ids, trash_s))}
    deleted_ids = [job_id for job_id in ids if jobs.delete_job(session, job_id)]
    for job_id in deleted_ids:
        file_removals.schedule_in_background(session, job_id)
    return {job_id: {"permanent": True} for job_id in deleted_ids}


def _delete_checkpoints(
    session: Session, project: str, rule: RetentionRule, ids: Any
) -> dict[str, dict[str, Any]]:
    outdated = selection.outdated_checkpoints(project, rule).subquery()
    rows = session.execute(select(outdated).where(outdated.c.job_id.in_(ids))).all()
    paths_by_job: defaultdict[str, list[Any]] = defaultdict(list)
    for row in rows:
        paths_by_job[row.job_id].append(row)
    for job_id, files in paths_by_job.items():
        paths = [file.path for file in files]
        artifacts.forget(session, job_id, paths)
        file_removals.schedule_in_background(session, job_id, paths)
    return {
        job_id: {"files": len(files), "size_bytes": sum(file.size_bytes for file in files)}
        for job_id, files in paths_by_job.items()
    }


def _delete_logs(session: Session, ids: Any) -> dict[str, dict[str, Any]]:
    statement = delete(LogRow).where(LogRow.job_id.in_(ids)).returning(LogRow.job_id)
    options = {"synchronize_session": False}
    return {job_id: {} for job_id in session.scalars(statement, execution_options=options)}


def _delete_entries(session: Session, project: str, rule: RetentionRule) -> bool:
    ids = session.scalars(selection.audit_entries(project, rule).limit(ENTRIES_PER_BATCH)).all()
    if ids:
        statement = delete(AuditEntry).where(AuditEntry.id.in_(ids))
        session.execute(statement.execution_options(synchronize_session=False))
        data = {"entries": len(ids), "older_than_days": rule.after_days}
        audit.record(session, _actor(project), "retention.audit", project, project=project, **data)
    return len(ids) == ENTRIES_PER_BATCH


def _actor(project: str) -> Actor:
    return Actor(project, None, ACTOR_NAME, None, None)
