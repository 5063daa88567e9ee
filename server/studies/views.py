"""Builds the API's models of studies from database rows."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Row

from ampspec.api.studies import Study, StudyFields, StudyJob
from ampspec.studies.kinds import ANSWER, expected_jobs
from server.row_models import from_row
from server.studies.planning import PLANNED
from store import studies, tables


def study_from_row(row: tables.Study, jobs: Sequence[Row[Any]]) -> Study:
    """The study of a row, with its jobs of `store.studies.jobs_of`."""
    answer = None
    with suppress(ValidationError):  # written by a newer version
        answer = ANSWER.validate_python(row.answer) if row.answer is not None else None
    ended = sum(job.result is not None for job in jobs)
    return from_row(
        Study,
        row,
        {
            "jobs": [_study_job(job) for job in jobs],
            "jobs_planned": len(jobs),
            "jobs_ended": ended,
            "progress": _progress(row, jobs),
            "answer": answer,
        },
    )


def listed_study_from_row(row: Row[Any]) -> StudyFields:
    """The study of a row of `store.studies.page`."""
    return from_row(StudyFields, row)


def _study_job(row: Row[Any]) -> StudyJob:
    result = row.result or {}
    return StudyJob(
        key=row.key,
        job=row.job_id,
        state=result.get("state") or row.state or PLANNED,
        progress=_job_progress(row) if row.job_id is not None else None,
        changes=row.changes,
    )


def _progress(study: tables.Study, jobs: Sequence[Row[Any]]) -> float | None:
    if study.state == studies.SUCCEEDED:
        return 1.0
    with suppress(ValidationError):  # written by another version
        expected = max(len(jobs), expected_jobs(study.kind, study.options))
        return sum(map(_job_progress, jobs)) / expected if jobs else None
    return None


def _job_progress(row: Row[Any]) -> float:
    if row.result is not None:
        return 1.0
    return min(row.step / row.total_steps, 1.0) if row.total_steps else 0.0
