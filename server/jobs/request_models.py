"""Dependencies that read the bodies of requests about a job, other than specs."""

from typing import Annotated, Any, TypeVar

from fastapi import Depends
from pydantic import ValidationError

from ampspec.api.job.explanations import ExplanationRequest
from ampspec.api.job.jobs import CloneChanges, Extension, JobChanges, ProfileRequest, RequestModel
from ampspec.documents.problems import from_pydantic
from server.deps import DocumentDep, OptionalDocumentDep
from server.errors import RequestInvalid

R = TypeVar("R", bound=RequestModel)


async def _job_changes(document: DocumentDep) -> dict[str, Any]:
    return _parse(JobChanges, document).model_dump(exclude_unset=True)


async def _clone_changes(document: OptionalDocumentDep) -> dict[str, Any]:
    return _parse(CloneChanges, document).set


async def _epochs(document: DocumentDep) -> int:
    return _parse(Extension, document).epochs


async def _profile_steps(document: OptionalDocumentDep) -> int:
    return _parse(ProfileRequest, document).steps


async def _explained_step(document: DocumentDep) -> int:
    return _parse(ExplanationRequest, document).step


def _parse(model: type[R], document: Any) -> R:
    """Raises RequestInvalid with every mistake."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise RequestInvalid(from_pydantic(error, model)) from None


JobChangesDep = Annotated[dict[str, Any], Depends(_job_changes)]
"""The fields to change, from the body of PATCH /jobs/{job_id}."""
CloneChangesDep = Annotated[dict[str, Any], Depends(_clone_changes)]
"""The value of each dotted path to change, from the body of POST /jobs/{job_id}/clone."""
EpochsDep = Annotated[int, Depends(_epochs)]
"""The number of further epochs, from the body of POST /jobs/{job_id}/extend."""
ProfileStepsDep = Annotated[int, Depends(_profile_steps)]
"""The number of steps, from the body of POST /jobs/{job_id}/profile."""
ExplainedStepDep = Annotated[int, Depends(_explained_step)]
"""The step, from the body of POST /jobs/{job_id}/explanations."""
