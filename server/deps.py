"""What routes ask for, as annotated aliases."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from anyio import CapacityLimiter
from fastapi import Depends, Path, Request

from ampcore.spec import JobSpec
from server.access.keyring import Keyring
from server.access.principal import Principal, Role
from server.datasets import Datasets
from server.errors import Forbidden, NotFound
from server.http.documents import read_body
from server.intake import Intake
from server.metrics.registry import Metrics
from server.reads import Reads
from server.streaming.streams import Streams
from server.wake import Wake
from service.bells import Bell
from service.storage import Storage
from store import jobs
from store.audit import Actor
from store.database import Database

JOB_ID: Final = re.compile(r"[0-9a-f]{12}")
JobIdInPath = Annotated[str, Path(alias="job_id", description="The job's id.")]


@dataclass(frozen=True)
class Services:
    """What the routes of one application share."""

    database: Database
    wake: Wake
    bell: Bell
    datasets: Datasets
    step_readers: CapacityLimiter
    """Bounds the blocks of steps that are decoded at one time."""
    storage: Storage
    keyring: Keyring
    metrics: Metrics
    reads: Reads
    intake: Intake
    streams: Streams = field(default_factory=Streams)


# Each reads the request by itself: FastAPI takes 50 µs for every dependency of a dependency.


def services_of(request: Request) -> Services:
    """What the application shares."""
    services: Services = request.app.state.services
    return services


def _shared(name: str) -> Any:
    """The dependency on one of the services, by its name."""

    async def read(request: Request) -> Any:
        return getattr(services_of(request), name)

    return Depends(read)


def no_job(job_id: str) -> NotFound:
    """What is said of a job that is not there, and of one that the principal does not see."""
    return NotFound(f"There is no job {job_id[:40]!r}.")


def job_id_of(request: Request) -> str:
    """The id in the path, which may be that of a job. Raises NotFound."""
    return _checked_id(request.path_params["job_id"])


async def _job_id(job_id: JobIdInPath) -> str:
    return _checked_id(job_id)


def _checked_id(job_id: str) -> str:
    if not JOB_ID.fullmatch(job_id):
        raise no_job(job_id)
    return job_id


async def _principal(request: Request) -> Principal:
    return principal_of(request)


def principal_of(request: Request) -> Principal:
    """Who asks, as the Door has found."""
    principal: Principal = request.scope["state"]["principal"]
    return principal


async def _member(request: Request) -> Principal:
    return member_of(request)


def member_of(request: Request) -> Principal:
    """Who asks, where they may change jobs. Raises Forbidden."""
    return _allow(principal_of(request), Role.ADMIN, Role.MEMBER)


async def _admin(request: Request) -> Principal:
    return _allow(principal_of(request), Role.ADMIN)


def _allow(principal: Principal, *roles: Role) -> Principal:
    if principal.role not in roles:
        raise Forbidden(
            f"Expected a token with the role {' or '.join(roles)}, "
            f"received one with the role {principal.role}."
        )
    return principal


async def _actor(request: Request) -> Actor:
    return actor(request, principal_of(request))


def actor(request: Request, principal: Principal) -> Actor:
    """Who is to be named for a change that the request makes."""
    return Actor(
        project=principal.project,
        token_id=principal.token_id,
        token_name=principal.token_name,
        address=request.client.host[:64] if request.client else None,
        request_id=request.scope["state"].get("request_id"),
    )


def _visible_job_id(job_id: Annotated[str, Depends(_job_id)], request: Request) -> str:
    with services_of(request).database.read() as session:
        project = jobs.project_of(session, job_id)
    if project is None or principal_of(request).sees not in (None, project):
        raise no_job(job_id)
    return job_id


async def _document(request: Request) -> Any:
    return await read_body(request)


async def _optional_document(request: Request) -> Any:
    return await read_body(request, empty={})


def _spec(document: Annotated[Any, Depends(_document)], request: Request) -> JobSpec:
    spec = JobSpec.parse(document)
    services_of(request).datasets.check(spec)
    return spec


DatabaseDep = Annotated[Database, _shared("database")]
WakeDep = Annotated[Wake, _shared("wake")]
BellDep = Annotated[Bell, _shared("bell")]
StorageDep = Annotated[Storage, _shared("storage")]
MetricsDep = Annotated[Metrics, _shared("metrics")]
StreamsDep = Annotated[Streams, _shared("streams")]
KeyringDep = Annotated[Keyring, _shared("keyring")]
JobId = Annotated[str, Depends(_job_id)]
VisibleJobId = Annotated[str, Depends(_visible_job_id)]
"""The id of a job that is there, in a project that the principal sees; NotFound otherwise."""
PrincipalDep = Annotated[Principal, Depends(_principal)]
MemberDep = Annotated[Principal, Depends(_member)]
"""Only for who may change jobs; Forbidden otherwise."""
AdminDep = Annotated[Principal, Depends(_admin)]
ActorDep = Annotated[Actor, Depends(_actor)]
DocumentDep = Annotated[Any, Depends(_document)]
"""The JSON in the request's body."""
OptionalDocumentDep = Annotated[Any, Depends(_optional_document)]
"""The same; {} where there is no body."""
PostedSpec = Annotated[JobSpec, Depends(_spec)]
"""The valid spec in the request's body; SpecInvalid says every mistake in it."""
