"""Requests about explanations of a job's steps."""

from ampclient._endpoints.request import (
    JsonRequest,
    idempotency_header,
    items_of,
    job_path,
    params,
    quote_path,
)
from ampclient._job.view import JobView
from ampspec.api.job.explanations import (
    Explanation,
    ExplanationCost,
    ExplanationList,
    ListedExplanation,
)


def explain_step(job_id: str, step: int, key: str) -> JsonRequest[JobView]:
    """Queue a job that explains a step of another one; the same key returns the same job."""
    return JsonRequest(
        method="POST",
        path=job_path(job_id, "explanations"),
        body={"step": step},
        headers=idempotency_header(key),
        read=JobView.from_json,
    )


def list_explanations(job_id: str, *, step: int | None) -> JsonRequest[list[ListedExplanation]]:
    """The newest explanations of a job's steps, or of one step."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "explanations"),
        params=params(step=step),
        read=items_of(ExplanationList),
    )


def get_explanation(job_id: str, explanation_id: str) -> JsonRequest[Explanation]:
    """An explanation with its answer."""
    path = job_path(job_id, "explanations", quote_path(explanation_id))
    return JsonRequest(method="GET", path=path, read=Explanation.from_json)


def get_explanation_cost(job_id: str, step: int) -> JsonRequest[ExplanationCost]:
    """What has to be repeated to explain a step."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "explanations", "cost"),
        params=params(step=step),
        read=ExplanationCost.from_json,
    )
