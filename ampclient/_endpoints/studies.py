"""Requests of studies."""

from collections.abc import Mapping
from typing import Any

from ampclient._endpoints.request import (
    JsonRequest,
    idempotency_header,
    params,
    parse_nothing,
    quote_path,
)
from ampspec.api.studies import Estimate, Study, StudyPage


def create_study(study: Mapping[str, Any], key: str) -> JsonRequest[Study]:
    """Create a study; the same key returns the same study."""
    headers = idempotency_header(key)
    return JsonRequest(
        method="POST", path="/studies", body=study, headers=headers, read=Study.from_json
    )


def estimate_study(study: Mapping[str, Any]) -> JsonRequest[Estimate]:
    """The jobs that a study would queue."""
    path, read = "/studies/estimate", Estimate.from_json
    return JsonRequest(method="POST", path=path, body=study, is_read_only=True, read=read)


def list_studies(limit: int, cursor: str | None) -> JsonRequest[StudyPage]:
    """A page of studies, newest first."""
    place = params(limit=limit, cursor=cursor)
    return JsonRequest(method="GET", path="/studies", params=place, read=StudyPage.from_json)


def get_study(study_id: str) -> JsonRequest[Study]:
    """One study."""
    return JsonRequest(method="GET", path=_path(study_id), read=Study.from_json)


def cancel_study(study_id: str) -> JsonRequest[Study]:
    """Cancel a study and its jobs."""
    path, headers = f"{_path(study_id)}/cancel", idempotency_header()
    return JsonRequest(method="POST", path=path, headers=headers, read=Study.from_json)


def delete_study(study_id: str) -> JsonRequest[None]:
    """Delete a study that has ended."""
    path, headers = _path(study_id), idempotency_header()
    return JsonRequest(method="DELETE", path=path, headers=headers, read=parse_nothing)


def _path(study_id: str) -> str:
    return f"/studies/{quote_path(study_id)}"
