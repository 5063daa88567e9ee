"""What routes ask for, as annotated aliases."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

from anyio import CapacityLimiter
from fastapi import Depends, Path, Request

from ampcore.spec import JobSpec
from server.datasets import Datasets
from server.documents import read_json
from server.errors import NotFound
from server.wake import Wake
from store.database import Database

JOB_ID: Final = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class Services:
    """What the routes of one application share."""

    database: Database
    wake: Wake
    datasets: Datasets
    step_readers: CapacityLimiter
    """Bounds the blocks of steps that are decoded at one time."""


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _database(services: Annotated[Services, Depends(_services)]) -> Database:
    return services.database


async def _wake(services: Annotated[Services, Depends(_services)]) -> Wake:
    return services.wake


async def _step_readers(
    services: Annotated[Services, Depends(_services)],
) -> CapacityLimiter:
    return services.step_readers


async def _job_id(job_id: Annotated[str, Path(description="The job's id.")]) -> str:
    if not JOB_ID.fullmatch(job_id):
        raise NotFound(f"There is no job {job_id[:40]!r}.")
    return job_id


async def _document(request: Request) -> Any:
    return read_json(await request.body())


def _spec(
    document: Annotated[Any, Depends(_document)], services: Annotated[Services, Depends(_services)]
) -> JobSpec:
    spec = JobSpec.parse(document)
    services.datasets.check(spec)
    return spec


DatabaseDep = Annotated[Database, Depends(_database)]
WakeDep = Annotated[Wake, Depends(_wake)]
StepReadersDep = Annotated[CapacityLimiter, Depends(_step_readers)]
JobId = Annotated[str, Depends(_job_id)]
PostedSpec = Annotated[JobSpec, Depends(_spec)]
"""The valid spec in the request's body; SpecInvalid says every mistake in it."""
