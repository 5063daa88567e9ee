"""Create studies, estimate them, cancel them, and delete them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from sqlalchemy.orm import Session

from ampspec.api.roles import Scope
from ampspec.api.studies import Estimate
from ampspec.jobs import JobSpec, SpecValidationError
from ampspec.studies.kinds import KINDS
from infra.notify import Notifier
from server.data_root import DataRoot
from server.datasets.references import pin_dataset
from server.deps import ActorDep, DatabaseDep, MemberDep, NotifierDep, check_scope, services_of
from server.errors import Conflict, NotFound, RequestInvalid
from server.files.initial_weights import check_initial_weights
from server.files.references import runs_custom_code
from server.http.access.principal import Principal
from server.http.responses import to_response
from server.idempotency import IdempotentRequestDep, respond_once
from server.request_bodies import StudyBody
from server.studies import planning
from server.studies.estimate import earlier_jobs
from server.studies.planner import Planner
from server.studies.questions import (
    CheckedStudy,
    context_facts,
    in_spec,
    make_question,
    parse_request,
)
from server.studies.views import study_from_row
from store import studies, tables
from store.access import audit
from store.access.audit import Actor
from store.access.idempotency import IdempotentRequest, StoredResponse
from store.database import Database


def check_study(
    database: Database,
    data_root: DataRoot,
    planner: Planner,
    principal: Principal,
    document: Any,
) -> CheckedStudy:
    """Check a request as the submission of each of its jobs would.

    Raises Forbidden, RequestInvalid, PlanningFailed, and SpecValidationError with pointers below
    /spec.
    """
    request = parse_request(document).prioritized()
    try:
        spec = JobSpec.parse(request.spec)
        if runs_custom_code(spec):
            check_scope(principal, Scope.RUN_CODE, "A study of a spec with a bundle")
        data_root.check(spec)
        check_initial_weights(database, spec, principal.project)
        spec = pin_dataset(database, spec, principal.project)
        with database.read() as session:
            question = make_question(session, request, spec, principal.project)
        first = planner.call(planning.first_jobs, request.kind, question)
        if first.problems:
            raise RequestInvalid(first.problems)
        if first.spec_problems:
            raise SpecValidationError(first.spec_problems)
    except SpecValidationError as error:
        raise in_spec(error) from None
    return CheckedStudy(request.kind, request.name or spec.name, question, first.jobs)


def estimate_study(
    database: Database, planner: Planner, study: CheckedStudy, project: str
) -> Estimate:
    """The cost of a study. Raises PlanningFailed."""
    with database.read() as session:
        earlier = earlier_jobs(session, study.question, project)
    return planner.call(planning.estimate, study.kind, study.question, study.jobs, earlier)


@dataclass(frozen=True)
class StudyActions:
    """Creates, cancels and deletes studies for the principal of one request."""

    database: Database
    notifier: Notifier
    principal: Principal
    actor: Actor
    idempotent_request: IdempotentRequest | None

    def create(self, study: CheckedStudy) -> Response:
        """Store a study with its first planned jobs, and return it with status 201.

        The background thread of a server queues the jobs. Raises KeyReused and QuotaReached.
        """

        def make(session: Session) -> StoredResponse:
            row = studies.create(session, **self._values(study))
            studies.add_jobs(session, row.id, _first_jobs(study))
            audit.record(session, self.actor, "study.create", row.id, kind=study.kind)
            session.refresh(row)
            created_study = study_from_row(row, studies.jobs_of(session, row.id))
            location = {"Location": f"/api/v1/studies/{row.id}"}
            return StoredResponse(201, location, created_study.model_dump_json())

        return to_response(respond_once(self.database, self.idempotent_request, make))

    def cancel(self, study_id: str) -> Response:
        """Cancel a study and its jobs; it ends once they have. Raises NotFound and Conflict."""
        cancelled: list[str] = []

        def make(session: Session) -> StoredResponse:
            visible = get_visible_study(session, study_id, self.principal)
            study = studies.lock(session, study_id, wait=True)
            if study is None:
                raise Conflict(
                    "Cannot cancel the study: expected the state running, received "
                    f"{visible.state}."
                )
            if study.ends_as != studies.CANCELLED:
                values = {"ends_as": studies.CANCELLED, "message": "Cancelled on request."}
                studies.set_state(session, study, studies.STOPPING, **values)
                audit.record(session, self.actor, "study.cancel", study_id, project=study.project)
            cancelled.extend(studies.cancel_jobs(session, study_id))
            changed = get_visible_study(session, study_id, self.principal)
            body = study_from_row(changed, studies.jobs_of(session, study_id))
            return StoredResponse(202, {}, body.model_dump_json())

        stored = respond_once(self.database, self.idempotent_request, make)
        for job_id in cancelled:
            self.notifier.notify(job_id)
        return to_response(stored)

    def delete(self, study_id: str) -> Response:
        """Delete a study that has ended; its jobs stay. Raises NotFound and Conflict."""

        def make(session: Session) -> StoredResponse:
            study = get_visible_study(session, study_id, self.principal)
            state, project = study.state, study.project
            if not studies.delete_study(session, study_id):
                raise Conflict(
                    "Cannot delete the study: expected the state succeeded, failed or cancelled, "
                    f"received {state}. Cancel it first."
                )
            audit.record(session, self.actor, "study.delete", study_id, project=project)
            return StoredResponse(204, {}, "")

        return to_response(respond_once(self.database, self.idempotent_request, make))

    def _values(self, study: CheckedStudy) -> dict[str, Any]:
        return {
            "project": self.principal.project,
            "kind": study.kind,
            "name": study.name,
            "spec": dict(study.question.document),
            "options": study.question.options.model_dump(mode="json"),
            "policies": list(study.question.policies),
            "facts": context_facts(study.question),
            "may_run_code": self.principal.has_scope(Scope.RUN_CODE),
            "token_id": self.actor.token_id,
            "created_by": self.actor.token_name,
            "request_id": self.actor.request_id,
        }


def _first_jobs(study: CheckedStudy) -> dict[str, Mapping[str, Any]]:
    """The changes of the jobs that are needed first, by key; none while the device decides."""
    kind = KINDS[study.kind]
    if kind.needs_device and study.question.device is None:
        return {}
    return {job.key: job.changes for job in study.jobs}


def get_visible_study(session: Session, study_id: str, principal: Principal) -> tables.Study:
    """The study, if the principal may see it. Raises NotFound."""
    study = studies.get(session, study_id, project=principal.visible_project)
    if study is None:
        raise NotFound(f"There is no study {study_id[:40]!r}.")
    return study


def _checked_study(body: StudyBody, principal: MemberDep, request: Request) -> CheckedStudy:
    services = services_of(request)
    return check_study(services.database, services.data_root, services.planner, principal, body)


async def _planner(request: Request) -> Planner:
    return services_of(request).planner


async def _study_actions(
    database: DatabaseDep,
    notifier: NotifierDep,
    principal: MemberDep,
    actor: ActorDep,
    idempotent_request: IdempotentRequestDep,
) -> StudyActions:
    return StudyActions(database, notifier, principal, actor, idempotent_request)


CheckedStudyDep = Annotated[CheckedStudy, Depends(_checked_study)]
"""The valid study in the request body, by a principal that may submit jobs."""
PlannerDep = Annotated[Planner, Depends(_planner)]
StudyActionsDep = Annotated[StudyActions, Depends(_study_actions)]
