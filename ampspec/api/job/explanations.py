"""Explanations of steps: jobs that repeat a step of another job, and their answers."""

from datetime import datetime
from typing import Any

from pydantic import Field

from ampspec.api.base import AnyState, ApiModel
from ampspec.api.job.jobs import RequestModel


class ExplanationRequest(RequestModel):
    """The step to explain."""

    step: int = Field(ge=0, description="The step, counted from 0.", examples=[1200])


class ExplanationCost(ApiModel):
    """The steps to repeat before a step can be explained."""

    first_step: int = Field(description="The step of the nearest earlier checkpoint, or 0.")
    steps: int = Field(description="The number of steps to repeat.")
    seconds: float | None = Field(
        description="The estimated time at the speed of the job; null if unknown."
    )


class _ExplanationFields(ApiModel):
    job: str = Field(description="The id of the job that explains the step.")
    explains: str = Field(description="The id of the job whose step it is.")
    step: int
    state: AnyState
    message: str | None = Field(description="The reason for the state, as text.")
    created_at: datetime
    finished_at: datetime | None


class ListedExplanation(_ExplanationFields):
    """An explanation in a list."""

    attribution: str | None = Field(description="Null until there is an answer.")
    sentence: str | None = Field(description="Null until there is an answer.")


class Explanation(_ExplanationFields):
    """An explanation with its answer."""

    answer: dict[str, Any] | None = Field(
        description="The cause of the step; null until it is known. Its fields are described in "
        "docs/reference/explanations.md."
    )


class ExplanationList(ApiModel):
    """The newest explanations of a job's steps, at most 100."""

    items: list[ListedExplanation]
