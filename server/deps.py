"""Dependencies of the routes, as `Annotated` aliases: services, principal, path and body."""

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Path, Query, Request
from sqlalchemy.orm import Session

from ampspec.api.projects import ProjectName
from ampspec.api.roles import Role, Scope
from ampspec.jobs import JobSpec
from infra.notify import Notifier
from infra.storage import Storage
from server.datasets.references import pin_dataset
from server.datasets.uploads import Uploads
from server.dispatch import Dispatcher
from server.errors import Forbidden, NotFound
from server.files.file_store import FileStore
from server.files.initial_weights import check_initial_weights
from server.http.access.authenticator import Authenticator
from server.http.access.principal import Principal
from server.http.admission.shared_result import SharedResult
from server.http.receive_body import BodyReceiver
from server.http.streaming.streams import Streams
from server.metrics.registry import Metrics
from server.notifications.channels import ChannelSettings
from server.plugins.options import check_packages
from server.request_bodies import SpecBody
from server.sign_on.sign_on import SignOn
from store.access import projects
from store.access.audit import Actor
from store.database import Database
from store.jobs import jobs, trash

if TYPE_CHECKING:
    from server.services import Services  # it imports the modules that import this one

JOB_ID: Final = re.compile(r"[0-9a-f]{12}")
JobIdInPath = Annotated[str, Path(alias="job_id", description="The job's id.")]


# Each dependency takes what it needs from the request itself: FastAPI needs 50 µs to resolve a
# dependency of a dependency.


def services_of(request: Request) -> "Services":
    """The services of the application that handles the request."""
    services: Services = request.app.state.services
    return services


def _service(name: str) -> Any:
    """A dependency that returns the service of that name."""

    async def read(request: Request) -> Any:
        return getattr(services_of(request), name)

    return Depends(read)


def job_not_found(job_id: str) -> NotFound:
    """The error for a job that does not exist, and for one that the principal may not see."""
    return NotFound(f"There is no job {job_id[:40]!r}.")


def missing_job(session: Session, principal: Principal, job_id: str) -> NotFound:
    """The error for a job that is not there, or deleted: what is in the trash can be restored."""
    trashed = trash.find(session, job_id)
    if trashed is None or not principal.sees(trashed.project):
        return job_not_found(job_id)
    return NotFound(
        f"The job {job_id!r} was deleted, and is in the trash until "
        f"{trashed.purge_at:%Y-%m-%d %H:%M} UTC. To restore it: ampctl job restore {job_id}, or "
        f"POST /api/v1/jobs/{job_id}/restore."
    )


def check_visible(principal: Principal, job_id: str, project: str | None) -> None:
    """Raise NotFound unless the principal may see the job, which is in this project."""
    if not principal.sees(project):
        raise job_not_found(job_id)


async def checked_job_id(job_id: JobIdInPath) -> str:
    """The id in the path. Raises NotFound for text that is no id."""
    if not JOB_ID.fullmatch(job_id):
        raise job_not_found(job_id)
    return job_id


async def _principal(request: Request) -> Principal:
    return principal_of(request)


def principal_of(request: Request) -> Principal:
    """The principal of the request, as AuthMiddleware found it."""
    principal: Principal = request.scope["state"]["principal"]
    return principal


async def _member(request: Request) -> Principal:
    return _allow(principal_of(request), Role.ADMIN, Role.MEMBER)


async def _admin(request: Request) -> Principal:
    return _allow(principal_of(request), Role.ADMIN)


async def _project_admin(request: Request) -> Principal:
    return check_is_admin(principal_of(request))


async def _token_manager(request: Request) -> Principal:
    principal = principal_of(request)
    return principal if principal.person is not None else check_is_admin(principal)


def check_is_admin(principal: Principal) -> Principal:
    """The principal, if it is an admin of all projects or of its own. Raises Forbidden."""
    if principal.role is not Role.ADMIN and not principal.is_project_admin:
        raise Forbidden(
            f"Expected a token with the role {Role.ADMIN}, or with the role {Role.MEMBER} and the "
            f"scope '{Scope.PROJECT_ADMIN}' for its own project; received one with the role "
            f"{principal.role}."
        )
    return principal


def check_administers(principal: Principal, project: str) -> None:
    """Raise Forbidden unless the principal manages the project."""
    if not principal.administers(project):
        raise Forbidden(
            f"Expected the project {principal.project!r}, which this token administers; received "
            f"{project!r}. Only admins manage other projects."
        )


def _allow(principal: Principal, *roles: Role) -> Principal:
    if principal.role not in roles:
        raise Forbidden(
            f"Expected a token with the role {' or '.join(roles)}, "
            f"received one with the role {principal.role}."
        )
    return principal


def check_scope(principal: Principal, scope: Scope, what: str) -> None:
    """Raise Forbidden unless the principal has the scope; `what` is what needs it."""
    if not principal.has_scope(scope):
        raise missing_scope(scope, what)


def missing_scope(scope: Scope, what: str) -> Forbidden:
    """The error for a principal without the scope that `what` needs."""
    return Forbidden(
        f"{what} needs a token with the scope '{scope}', which this one does not have. An admin "
        f"creates one: ampctl token create NAME --scope {scope}."
    )


async def _actor(request: Request) -> Actor:
    return actor_of(request, principal_of(request))


def actor_of(request: Request, principal: Principal) -> Actor:
    """Who the audit log names for the changes that the request makes."""
    return Actor(
        project=principal.project,
        token_id=principal.token_id,
        token_name=principal.token_name,
        address=request.client.host[:64] if request.client else None,
        request_id=request.scope["state"].get("request_id"),
    )


def _visible_job_id(job_id: Annotated[str, Depends(checked_job_id)], request: Request) -> str:
    with services_of(request).database.read() as session:
        project, principal = jobs.project_of(session, job_id), principal_of(request)
        if not principal.sees(project):
            raise missing_job(session, principal, job_id)
    return job_id


def _spec(document: SpecBody, request: Request) -> JobSpec:
    spec = JobSpec.parse(document)
    services = services_of(request)
    services.data_root.check(spec)
    check_packages(services.database, spec)
    project = principal_of(request).project
    check_initial_weights(services.database, spec, project)
    return pin_dataset(services.database, spec, project)


def _project(
    request: Request,
    project: Annotated[
        ProjectName | None,
        Query(description="For admins: another project than the token's own."),
    ] = None,
) -> str:
    principal = principal_of(request)
    if project in (None, principal.project):
        return principal.project
    if principal.visible_project is None:
        with services_of(request).database.read() as session:
            if projects.get(session, project) is not None:
                return project
    raise NotFound(f"There is no project {project!r}.")


DatabaseDep = Annotated[Database, _service("database")]
DispatcherDep = Annotated[Dispatcher, _service("dispatcher")]
NotifierDep = Annotated[Notifier, _service("notifier")]
StorageDep = Annotated[Storage, _service("storage")]
MetricsDep = Annotated[Metrics, _service("metrics")]
ReadinessDep = Annotated[SharedResult[None], _service("readiness")]
StreamsDep = Annotated[Streams, _service("streams")]
UploadsDep = Annotated[Uploads, _service("uploads")]
FileStoreDep = Annotated[FileStore, _service("file_store")]
ChannelsDep = Annotated[ChannelSettings, _service("channels")]
BodyReceiverDep = Annotated[BodyReceiver, _service("body_receiver")]
SignOnDep = Annotated[SignOn | None, _service("sign_on")]
"""Sign-on with a provider; None if the settings name none."""
AuthenticatorDep = Annotated[Authenticator, _service("authenticator")]
JobId = Annotated[str, Depends(checked_job_id)]
VisibleJobId = Annotated[str, Depends(_visible_job_id)]
"""The id of an existing job in a project that the principal may see; NotFound otherwise."""
PrincipalDep = Annotated[Principal, Depends(_principal)]
MemberDep = Annotated[Principal, Depends(_member)]
"""The principal, if it may change jobs; Forbidden otherwise."""
AdminDep = Annotated[Principal, Depends(_admin)]
ProjectAdminDep = Annotated[Principal, Depends(_project_admin)]
"""The principal, if it is an admin of all projects or of its own; Forbidden otherwise."""
TokenManagerDep = Annotated[Principal, Depends(_token_manager)]
"""The principal, if it is an admin of all projects or of its own, or a signed-in person.

Forbidden otherwise.
"""
ProjectDep = Annotated[str, Depends(_project)]
"""The project whose datasets, files or models are meant: by default the token's.

NotFound for another one.
"""
ActorDep = Annotated[Actor, Depends(_actor)]
PostedSpec = Annotated[JobSpec, Depends(_spec)]
"""The valid spec in the request body; SpecValidationError lists every mistake in it."""
