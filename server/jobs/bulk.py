"""Cancel, delete or label all jobs that match a filter."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Query, Request, Response

from ampspec.jobs import Problem
from ampspec.training.training import MAX_LABELS
from server.deps import MemberDep
from server.errors import Conflict, RequestInvalid
from server.jobs.actions import CANCEL, DELETE, EDIT, JobActions, deletion_details
from server.jobs.listing import JobFiltersDep, Project
from store.listing import bulk_changes
from store.listing.search_filters import Search

MAX_CHANGED: Final = 1_000
"""Jobs of one transaction: to cancel them takes about a second; a deletion ends early."""
FILTERS: Final = (
    "id, state, label, q, policy, model, project, created_after, created_before, metric or study"
)

Permanent = Annotated[
    bool, Query(description="Delete at once: what is deleted cannot be restored.")
]
ChangeLimit = Annotated[
    int,
    Query(ge=1, le=MAX_CHANGED, description="At most so many jobs; `more` says if others match."),
]


def cancel_jobs(actions: JobActions, search: Search, limit: int) -> Response:
    """Cancel the jobs that match."""
    change = partial(bulk_changes.cancel_matching, search=search, limit=limit)
    return actions.change_matching(CANCEL, change, by_filter=True)


def delete_jobs(actions: JobActions, search: Search, limit: int, *, permanent: bool) -> Response:
    """Put the ended jobs that match into the trash, or delete them at once."""
    keep_s = 0.0 if permanent else actions.trash_s
    change = partial(bulk_changes.trash_matching, search=search, limit=limit, keep_s=keep_s)
    return actions.change_matching(DELETE, change, by_filter=True, **deletion_details(keep_s))


def label_jobs(
    actions: JobActions, search: Search, labels: Mapping[str, str | None], limit: int
) -> Response:
    """Set or remove labels of the jobs that match. Raises Conflict for a job with too many."""
    change = partial(
        bulk_changes.label_matching,
        search=search,
        changes=labels,
        max_labels=MAX_LABELS,
        limit=limit,
    )
    try:
        return actions.change_matching(EDIT, change, by_filter=True, labels=dict(labels))
    except bulk_changes.TooManyLabels as error:
        raise Conflict(
            f"Cannot label the jobs: expected at most {MAX_LABELS} labels for each job, job "
            f"{error.job_id} would have {error.count}. No job was changed."
        ) from None


async def _bulk_filters(
    request: Request, search: JobFiltersDep, _member: MemberDep, project: Project = None
) -> Search:
    """The filters of the request. Raises RequestInvalid if there is none, or an empty one.

    The project to which a token is bound is no filter: a member who gives none means no job.
    """
    empty = [name for name, value in request.query_params.multi_items() if not value]
    if empty:
        raise RequestInvalid(
            [Problem(f"/query/{name}", "invalid_value", "a value", "''") for name in empty]
        )
    if replace(search, project=project) == Search(explanations=search.explanations):
        expected = f"a filter: {FILTERS}"
        raise RequestInvalid([Problem("/query", "missing_value", expected, "none")])
    return search


BulkFiltersDep = Annotated[Search, Depends(_bulk_filters)]
"""The filters in the query parameters, at least one, for the jobs that the token may see."""
