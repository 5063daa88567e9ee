"""What requests about a job carry in their bodies, beside specs. Unknown fields are an error."""

from typing import Annotated, Any, Self

from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ampcore.spec.problems import from_pydantic
from ampcore.spec.training import Labels
from server.deps import DocumentDep, OptionalDocumentDep
from server.http.parameters import RequestInvalid


def _without_default(schema: dict[str, Any]) -> None:
    """What is left out stays as it is: the default of the field is never used."""
    del schema["default"]


class Body(BaseModel):
    """The body of a request, in strict types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def parse(cls, document: Any) -> Self:
        """Raises RequestInvalid with every mistake."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise RequestInvalid(from_pydantic(error, cls)) from None


class JobChanges(Body):
    """What may be changed of a job; what is left out stays as it is."""

    name: str = Field(default="", min_length=1, max_length=200, json_schema_extra=_without_default)
    labels: Labels = Field(default_factory=dict, description="All of them, in place of the old.")
    priority: int = Field(default=5, ge=0, le=9, json_schema_extra=_without_default)


class CloneChanges(Body):
    """What is to be different in a clone."""

    set: dict[str, Any] = Field(
        default_factory=dict,
        max_length=100,
        description='By dotted path: {"precision.policy": "float32", "train.epochs": 5}.',
        examples=[{"precision.policy": "float32"}],
    )


async def _job_changes(document: DocumentDep) -> dict[str, Any]:
    return JobChanges.parse(document).model_dump(exclude_unset=True)


async def _clone_changes(document: OptionalDocumentDep) -> dict[str, Any]:
    return CloneChanges.parse(document).set


JobChangesDep = Annotated[dict[str, Any], Depends(_job_changes)]
CloneChangesDep = Annotated[dict[str, Any], Depends(_clone_changes)]
