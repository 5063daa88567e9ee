"""Advance a study by one round: record results, queue jobs, answer or end it.

A round reads and decides without a lock, then writes in one transaction under the study's lock.
What it writes depends only on rows that it reads again there: a job is created together with the
entry that names it, and only where there is no entry. So rounds of several servers, and rounds that
were interrupted, create each job exactly once. A round whose entries another server has changed
meanwhile writes nothing: the next one decides again, since what is needed next may depend on them.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.orm import Session

from ampspec.api.job.jobs import Job
from ampspec.api.roles import Scope
from ampspec.jobs import TERMINAL, SpecValidationError, State
from ampspec.studies.kinds import KINDS
from ampspec.studies.plan import JobResult, PlannedJob, Results, StudyContext, StudyKind
from ampspec.telemetry.json_values import json_safe
from infra.notify import Notifier
from infra.storage import Storage
from server.dispatch import Dispatcher, dispatch_jobs
from server.studies import planning
from server.studies.planner import Planner
from server.studies.planning import NextJobs
from server.studies.questions import context_facts, question_of, with_device
from server.studies.results import new_results
from server.submissions.submission import (
    CheckedSubmission,
    JobDraft,
    JobSubmitter,
    Submission,
    create_jobs,
)
from store import studies, tables
from store.access import people, projects, tokens
from store.access.audit import Actor
from store.database import Database
from store.files import artifact_quota

log = logging.getLogger(__name__)

WAITING: Final = "Waits for an online worker that has reported its devices."
STORAGE_FULL: Final = (
    "The artifacts of the project take all of its quota. Delete old jobs for good, or ask an admin "
    "for more; then the study goes on by itself."
)
MAX_JOBS_PER_ROUND: Final = 50
"""So that the transaction of a large study is short."""


@dataclass(frozen=True)
class StudyProgress:
    """Advances studies; every server has one."""

    database: Database
    dispatcher: Dispatcher
    notifier: Notifier
    submitter: JobSubmitter
    storage: Storage
    planner: Planner
    _plans: dict[str, tuple[Any, NextJobs]] = field(default_factory=dict)
    """By study: what its last plan was made from, and the plan."""

    def advance(self, study_id: str) -> None:
        """Do what a study needs now. Nothing happens if another server does it."""
        with self.database.read() as session:
            study = studies.get(session, study_id)
            rows = studies.jobs_of(session, study_id)
        if study is None or study.state not in studies.UNFINISHED:
            self._plans.pop(study_id, None)
            return
        if study.state == studies.STOPPING:
            self._stop(study, rows)
        else:
            self._run(study, rows)

    def keep_plans_of(self, study_ids: Collection[str]) -> None:
        """Forget the plans of all other studies: they have ended, or another server leads."""
        for study_id in self._plans.keys() - set(study_ids):
            del self._plans[study_id]

    def _run(self, study: tables.Study, rows: Sequence[Row[Any]]) -> None:
        with self.database.read() as session:
            new = self._new_results(session, study, rows)
        results = {row.key: _result(row.result) for row in rows if row.result} | new
        planned_before = {row.key: row.changes for row in rows}
        question, kind = self._question(study, planned_before), KINDS[study.kind]
        if question.device is None and kind.needs_device:
            self._wait_for_worker(study)
            return
        plan = self._plan(study, question, results)
        if lost := _lost_extensions(plan.jobs, rows, results):
            new, results = new | lost, results | lost
            plan = self._plan(study, question, results)
        if plan.no_answer is not None:
            ends_as = {"ends_as": studies.FAILED, "message": plan.no_answer}
            self._end(study, rows, new, studies.STOPPING, **ends_as)
            return
        planned = plan.jobs
        if all(job.key in results for job in planned):
            self._finish(study, question, rows, new, results)
            return
        queued = {row.key for row in rows if row.job_id is not None} | set(results)
        waiting = [job for job in planned if job.key not in queued][:MAX_JOBS_PER_ROUND]
        checked = {job.key: self._check(study, question, job, results) for job in waiting}
        errors = {
            key: outcome for key, outcome in checked.items() if isinstance(outcome, Exception)
        }
        if errors and not _can_go_on_without(kind, errors.values()):
            message = f"A job of the study was refused: {next(iter(errors.values()))}"
            ends_as = {"ends_as": studies.FAILED, "message": message}
            self._end(study, rows, new, studies.STOPPING, **ends_as)
            return
        new = new | {key: JobResult.refused(str(error)) for key, error in errors.items()}
        valid = {
            key: outcome
            for key, outcome in checked.items()
            if isinstance(outcome, CheckedSubmission)
        }
        if new or valid:
            self._queue(study, rows, planned, new, valid)

    def _plan(self, study: tables.Study, question: StudyContext[Any], results: Results) -> NextJobs:
        """The jobs that are needed now; made again only when something has changed."""
        made_from = (tuple(question.planned), frozenset(results), question.device)
        cached = self._plans.get(study.id)
        if cached is not None and cached[0] == made_from:
            return cached[1]
        plan = self.planner.call(planning.next_jobs, study.kind, question, results)
        self._plans[study.id] = (made_from, plan)
        return plan

    def _new_results(
        self, session: Session, study: tables.Study, rows: Sequence[Row[Any]]
    ) -> dict[str, JobResult]:
        with_examples = KINDS[study.kind].compares_examples
        return new_results(session, rows, self.storage, with_examples=with_examples)

    def _question(
        self, study: tables.Study, planned: Mapping[str, Mapping[str, Any]]
    ) -> StudyContext[Any]:
        """The question, with the device of a worker that has reported it since the creation."""
        question = question_of(study, planned)
        if question.device is not None:
            return question
        with self.database.read() as session:
            question = with_device(session, question)
        if question.device is not None:
            facts = context_facts(question)
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
        rows: Sequence[Row[Any]],
        planned: Sequence[PlannedJob],
        new: Results,
        valid: Mapping[str, CheckedSubmission],
    ) -> None:
        """Record results, and queue as many of the jobs as the project's quota allows."""
        created: list[Job] = []
        with self.database.write() as session:
            if not _is_unchanged(session, study.id, rows):
                return
            studies.add_jobs(session, study.id, {job.key: job.changes for job in planned})
            _record(session, study.id, new)
            missing = [
                row.key
                for row in studies.jobs_of(session, study.id)
                if row.job_id is None and row.key in valid
            ]
            may_store = artifact_quota.has_room(session, study.project)
            room = projects.queue_room(session, study.project) if missing and may_store else 0
            if missing:
                self._say_if_storage_is_full(session, study, is_full=not may_store)
            keys = missing if room is None else missing[:room]
            created += create_jobs(session, [valid[key] for key in keys])
            for key, job in zip(keys, created, strict=True):
                studies.set_job(session, study.id, key, job.id)
        dispatch_jobs(self.database, self.dispatcher, created)

    def _say_if_storage_is_full(
        self, session: Session, study: tables.Study, *, is_full: bool
    ) -> None:
        """Tell why no jobs are queued, as long as that is the reason."""
        if is_full != (study.message == STORAGE_FULL):
            message = STORAGE_FULL if is_full else None
            studies.set_state(session, study, studies.RUNNING, message=message)

    def _check(
        self, study: tables.Study, question: StudyContext[Any], job: PlannedJob, results: Results
    ) -> CheckedSubmission | Exception:
        """The job as a submission by the token that created the study."""
        extends = results[job.extends].job_id if job.extends is not None else None
        draft = JobDraft(job.document(question, study.id), study.project, extends=extends)
        actor = Actor(study.project, study.token_id, study.created_by, None, study.request_id)
        may_run_code = self._may_run_code(study)
        submission = Submission(lambda: draft, "job.submit", actor, may_run_code=may_run_code)
        return self.submitter.check(submission)

    def _may_run_code(self, study: tables.Study) -> bool:
        """Whether who created the study, a token or a person, had the scope and has it still."""
        if not study.may_run_code:
            return False
        with self.database.read() as session:
            return tokens.has_scope(session, study.token_id, Scope.RUN_CODE) or people.has_scope(
                session, study.token_id, study.project, Scope.RUN_CODE
            )

    def _finish(
        self,
        study: tables.Study,
        question: StudyContext[Any],
        rows: Sequence[Row[Any]],
        new: Results,
        results: Results,
    ) -> None:
        answer = self.planner.call(planning.answer, study.kind, question, results)
        if isinstance(answer, str):
            self._end(study, rows, new, studies.FAILED, message=answer)
        else:
            document = json_safe(answer.model_dump(mode="json"))
            self._end(study, rows, new, studies.SUCCEEDED, answer=document, message=None)

    def _end(
        self,
        study: tables.Study,
        rows: Sequence[Row[Any]],
        new: Results,
        state: str,
        **values: Any,
    ) -> None:
        with self.database.write() as session:
            if not _is_unchanged(session, study.id, rows):
                return
            _record(session, study.id, new)
            studies.set_state(session, study, state, **values)
        self._plans.pop(study.id, None)
        log.info("study %s is %s", study.id, state)

    def _stop(self, study: tables.Study, rows: Sequence[Row[Any]]) -> None:
        """Cancel the jobs that have not ended; end the study when all have."""
        self._plans.pop(study.id, None)
        cancelled: list[str] = []
        with self.database.write() as session:
            if studies.lock(session, study.id, wait=False) is None:
                return
            _record(session, study.id, self._new_results(session, study, rows))
            cancelled += studies.cancel_jobs(session, study.id)
            remaining_jobs = studies.jobs_of(session, study.id)
            if not any(
                row.state is not None and row.state not in TERMINAL for row in remaining_jobs
            ):
                _record(session, study.id, self._new_results(session, study, remaining_jobs))
                studies.set_state(session, study, study.ends_as or studies.CANCELLED)
        for job_id in cancelled:
            self.notifier.notify(job_id)


def _result(document: Mapping[str, Any]) -> JobResult:
    return JobResult.from_json(document)


def _can_go_on_without(kind: StudyKind[Any], errors: Iterable[Exception]) -> bool:
    """Whether the study can do without the jobs that were refused with these errors."""
    are_invalid = all(isinstance(error, SpecValidationError) for error in errors)
    return kind.allows_invalid_jobs and are_invalid


def _is_running(session: Session, study_id: str) -> bool:
    """Lock a study. False if another server has locked it, or if it no longer runs."""
    locked = studies.lock(session, study_id, wait=False)
    return locked is not None and locked.state == studies.RUNNING


def _is_unchanged(session: Session, study_id: str, rows: Sequence[Row[Any]]) -> bool:
    """Lock a running study. False if its entries are no longer those that a round has read."""
    return _is_running(session, study_id) and (
        [_entry(row) for row in studies.jobs_of(session, study_id)] == [_entry(row) for row in rows]
    )


def _entry(row: Row[Any]) -> tuple[str, str | None, bool]:
    return row.key, row.job_id, row.result is not None


def _lost_extensions(
    planned: Sequence[PlannedJob], rows: Sequence[Row[Any]], results: Results
) -> dict[str, JobResult]:
    """Results of jobs that cannot be queued, since the job that they extend was deleted."""
    entries = {row.key: row for row in rows}
    lost = {}
    for job in planned:
        entry, extended = entries.get(job.key), entries.get(job.extends or "")
        is_waiting = entry is not None and entry.job_id is None and job.key not in results
        if is_waiting and extended is not None and extended.state is None:
            message = "The job that it extends was deleted."
            lost[job.key] = JobResult(extended.job_id, State.CANCELLED, message=message)
    return lost


def _record(session: Session, study_id: str, new: Results) -> None:
    for key, result in new.items():
        studies.set_result(session, study_id, key, json_safe(result.to_json()))
