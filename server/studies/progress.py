"""Advance a study by one round: record results, queue jobs, answer or end it.

A round reads and decides without a lock, then writes in one transaction under the study's lock.
What it writes depends only on rows that it reads again there: a job is created together with the
entry that names it, and only where there is no entry. So rounds of several servers, and rounds that
were interrupted, create each job exactly once.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.orm import Session

from ampcore.api.jobs import Job
from ampcore.lab.kinds import KINDS
from ampcore.lab.plan import JobResult, NoAnswer, PlannedJob, Question, Results
from ampcore.spec import TERMINAL
from ampcore.telemetry.json_values import json_safe
from server.dispatch import Dispatcher, dispatch_jobs
from server.jobs.submission import (
    CheckedSubmission,
    JobDraft,
    JobSubmitter,
    Submission,
    create_jobs,
)
from server.studies.questions import question_facts, question_of, with_device
from server.studies.results import new_results
from service.notify import Notifier
from store import projects, studies, tables
from store.audit import Actor
from store.database import Database

log = logging.getLogger(__name__)

WAITING: Final = "Waits for an online worker that has reported its devices."
MAX_JOBS_PER_ROUND: Final = 50
"""So that the transaction of a large study is short."""


@dataclass(frozen=True)
class StudyProgress:
    """Advances studies; every server has one."""

    database: Database
    dispatcher: Dispatcher
    notifier: Notifier
    submitter: JobSubmitter

    def advance(self, study_id: str) -> None:
        """Do what a study needs now. Nothing happens if another server does it."""
        with self.database.read() as session:
            study = studies.get(session, study_id)
            rows = studies.jobs_of(session, study_id)
        if study is None or study.state not in studies.UNFINISHED:
            return
        if study.state == studies.STOPPING:
            self._stop(study, rows)
        else:
            self._run(study, rows)

    def _run(self, study: tables.Study, rows: Sequence[Row[Any]]) -> None:
        with self.database.read() as session:
            new = new_results(session, rows)
        results = {row.key: _result(row.result) for row in rows if row.result} | new
        question, kind = self._question(study), KINDS[study.kind]
        if question.device is None and kind.needs_device:
            self._wait_for_worker(study)
            return
        planned = kind.jobs(question, results)
        queued = {row.key for row in rows if row.job_id is not None}
        waiting = [job for job in planned if job.key not in queued][:MAX_JOBS_PER_ROUND]
        if all(job.key in results for job in planned):
            self._finish(study, question, new, results)
            return
        checked = {job.key: self._check(study, question, job) for job in waiting}
        errors = [error for error in checked.values() if isinstance(error, Exception)]
        if errors:
            message = f"A job of the study was refused: {errors[0]}"
            self._end(study, new, studies.STOPPING, ends_as=studies.FAILED, message=message)
            return
        valid = {key: one for key, one in checked.items() if isinstance(one, CheckedSubmission)}
        if new or valid:
            self._queue(study, planned, new, valid)

    def _question(self, study: tables.Study) -> Question[Any]:
        """The question, with the device of a worker that has reported it since the creation."""
        question = question_of(study)
        if question.device is not None:
            return question
        with self.database.read() as session:
            question = with_device(session, question)
        if question.device is not None:
            facts = question_facts(question)
            self._set_running(study, facts=facts, message=None)
        return question

    def _wait_for_worker(self, study: tables.Study) -> None:
        if study.message != WAITING:
            self._set_running(study, message=WAITING)

    def _set_running(self, study: tables.Study, **values: Any) -> None:
        with self.database.write() as session:
            if _is_running(session, study.id):
                studies.set_state(session, study, studies.RUNNING, **values)

    def _queue(
        self,
        study: tables.Study,
        planned: Sequence[PlannedJob],
        new: Results,
        valid: Mapping[str, CheckedSubmission],
    ) -> None:
        """Record results, and queue as many of the jobs as the project's quota allows."""
        created: list[Job] = []
        with self.database.write() as session:
            if not _is_running(session, study.id):
                return
            _record(session, study.id, new)
            studies.add_jobs(session, study.id, {job.key: job.changes for job in planned})
            missing = [
                row.key
                for row in studies.jobs_of(session, study.id)
                if row.job_id is None and row.key in valid
            ]
            room = projects.queue_room(session, study.project) if missing else 0
            keys = missing if room is None else missing[:room]
            created += create_jobs(session, [valid[key] for key in keys])
            for key, job in zip(keys, created, strict=True):
                studies.set_job(session, study.id, key, job.id)
        dispatch_jobs(self.database, self.dispatcher, created)

    def _check(
        self, study: tables.Study, question: Question[Any], job: PlannedJob
    ) -> CheckedSubmission | Exception:
        """The job as a submission by the token that created the study."""
        draft = JobDraft(job.document(question, study.id), study.project)
        actor = Actor(study.project, study.token_id, study.created_by, None, study.request_id)
        submission = Submission(lambda: draft, "job.submit", actor, may_run_code=study.may_run_code)
        return self.submitter.check(submission)

    def _finish(
        self, study: tables.Study, question: Question[Any], new: Results, results: Results
    ) -> None:
        try:
            answer = KINDS[study.kind].answer(question, results)
        except NoAnswer as error:
            self._end(study, new, studies.FAILED, message=str(error))
        else:
            document = json_safe(answer.model_dump(mode="json"))
            self._end(study, new, studies.SUCCEEDED, answer=document, message=None)

    def _end(self, study: tables.Study, new: Results, state: str, **values: Any) -> None:
        with self.database.write() as session:
            if not _is_running(session, study.id):
                return
            _record(session, study.id, new)
            studies.set_state(session, study, state, **values)
        log.info("study %s is %s", study.id, state)

    def _stop(self, study: tables.Study, rows: Sequence[Row[Any]]) -> None:
        """Cancel the jobs that have not ended; end the study when all have."""
        cancelled: list[str] = []
        with self.database.write() as session:
            if studies.lock(session, study.id, wait=False) is None:
                return
            _record(session, study.id, new_results(session, rows))
            cancelled += studies.cancel_jobs(session, study.id)
            left = studies.jobs_of(session, study.id)
            if not any(row.state is not None and row.state not in TERMINAL for row in left):
                _record(session, study.id, new_results(session, left))
                studies.set_state(session, study, study.ends_as or studies.CANCELLED)
        for job_id in cancelled:
            self.notifier.notify(job_id)


def _result(document: Mapping[str, Any]) -> JobResult:
    return JobResult.from_json(document)


def _is_running(session: Session, study_id: str) -> bool:
    """Lock a study. False if another server has locked it, or if it no longer runs."""
    locked = studies.lock(session, study_id, wait=False)
    return locked is not None and locked.state == studies.RUNNING


def _record(session: Session, study_id: str, new: Results) -> None:
    for key, result in new.items():
        studies.set_result(session, study_id, key, json_safe(result.to_json()))
