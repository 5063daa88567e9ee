"""Create, list, change and delete subscriptions, and give them new secrets."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Response
from sqlalchemy.orm import Session

from ampspec.api.notifications import (
    JobId,
    Subscription,
    SubscriptionChanges,
    SubscriptionPage,
    SubscriptionRequest,
    SubscriptionWithSecret,
)
from ampspec.jobs import Problem
from server.deps import ActorDep, ChannelsDep, DatabaseDep, MemberDep, job_not_found
from server.documentation.openapi import problems
from server.errors import Conflict, NotFound, RequestInvalid
from server.http.access.principal import Principal
from server.http.json_body import JsonRoute
from server.http.newest_first import (
    Cursor,
    Limit,
    cursor_of,
    page_of,
    read_cursor,
    rows_to_read,
)
from server.http.responses import to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, respond_once
from server.notifications.channels import ChannelSettings
from server.notifications.services import address_error
from server.notifications.targets import FIELD, Target, read_target, shown_target
from server.row_models import from_row
from store import tables
from store.access import audit
from store.access.audit import Actor
from store.access.idempotency import StoredResponse
from store.database import Database
from store.jobs import jobs
from store.notifications import subscriptions

router = api_router("/notifications", tags=["notifications"], route_class=JsonRoute)

NO_STORE = {"Cache-Control": "no-store"}
SubscriptionId = Annotated[
    str, Path(description="The subscription's id.", max_length=32, pattern="^[0-9a-f]+$")
]


class Visible:
    """The subscription that a path names; only members of its project may read it."""

    def __init__(self, subscription_id: SubscriptionId, member: MemberDep) -> None:
        self.id, self._member = subscription_id, member

    @property
    def member(self) -> Principal:
        """Who asks."""
        return self._member

    def row(self, session: Session) -> tables.Subscription:
        """Its row. Raises NotFound."""
        project = self._member.visible_project
        row = subscriptions.get(session, self.id, project=project)
        if row is None:
            raise NotFound(f"There is no subscription {self.id!r}.")
        return row


VisibleDep = Annotated[Visible, Depends(Visible)]
JobFilter = Annotated[JobId | None, Query(description="Only the subscriptions to this job.")]


@router.post(
    "",
    summary="Create a subscription to notifications",
    status_code=201,
    response_model=SubscriptionWithSecret,
    responses=problems(403, 404, 422, 429),
)
def create(
    *,
    member: MemberDep,
    actor: ActorDep,
    channels: ChannelsDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
    request: SubscriptionRequest,
) -> Response:
    """Send messages to a receiver; only this response contains the secret of a webhook."""
    target = _checked_target(request.target, channels)
    values = {
        "project": _project(database, member, request.job_id),
        "name": request.name or shown_target(target.channel, target.address)[:200],
        "channel": target.channel,
        "target": target.address,
        "types": request.chosen_types,
        "job_id": request.job_id,
        "link_base": channels.link_base,
        "created_by": member.token_name,
    }

    def make(session: Session) -> StoredResponse:
        row = subscriptions.create(session, **values)
        _record(session, actor, "notification.create", row, types=row.types, job_id=row.job_id)
        return StoredResponse(201, NO_STORE, subscription_from_row(row).model_dump_json())

    return _with_secret(database, respond_once(database, idempotent_request, make))


@router.get("", summary="List the subscriptions to notifications", responses=problems(403, 422))
def listing(
    *,
    member: MemberDep,
    database: DatabaseDep,
    job_id: JobFilter = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> SubscriptionPage:
    """List the subscriptions of the token's project, newest first; for admins, of all projects."""
    with database.read() as session:
        rows, has_more = page_of(
            subscriptions.page(
                session,
                project=member.visible_project,
                job_id=job_id,
                position=read_cursor(cursor),
                limit=rows_to_read(limit),
            ),
            limit,
        )
        items = [subscription_from_row(row) for row in rows]
    next_cursor = cursor_of(items[-1].created_at, items[-1].id) if has_more else None
    return SubscriptionPage(items=items, next_cursor=next_cursor)


@router.get("/{subscription_id}", summary="Read a subscription", responses=problems(403, 404))
def read(visible: VisibleDep, database: DatabaseDep) -> Subscription:
    """Read a subscription; its secret is not shown again."""
    with database.read() as session:
        return subscription_from_row(visible.row(session))


@router.patch(
    "/{subscription_id}",
    summary="Change a subscription",
    response_model=Subscription,
    responses=problems(403, 404, 422),
)
def change(
    *,
    visible: VisibleDep,
    changes: SubscriptionChanges,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Change the name and the types of a subscription, or disable and enable it."""
    fields = changes.model_dump(exclude_none=True)

    def make(session: Session) -> StoredResponse:
        row = visible.row(session)
        values = {name: value for name, value in fields.items() if name != "enabled"}
        if values:
            row = subscriptions.update_fields(session, row.id, **values) or row
        if changes.enabled is True:
            row = subscriptions.enable(session, row.id) or row
        elif changes.enabled is False and row.disabled_at is None:
            reason = f"{actor.token_name} has disabled it."
            row = subscriptions.disable(session, row, reason)
        _record(session, actor, "notification.update", row, **fields)
        return StoredResponse(200, {}, subscription_from_row(row).model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))


@router.post(
    "/{subscription_id}/rotate",
    summary="Give a webhook a new secret",
    response_model=SubscriptionWithSecret,
    responses=problems(403, 404, 409),
)
def rotate(
    *,
    visible: VisibleDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Replace the secret; for a day messages are signed with the previous one, too."""

    def make(session: Session) -> StoredResponse:
        row = visible.row(session)
        if row.secret is None:
            raise Conflict(f"Expected a webhook, received the channel {row.channel}: no secret.")
        row = subscriptions.rotate(session, row.id) or row
        _record(session, actor, "notification.rotate", row)
        return StoredResponse(200, NO_STORE, subscription_from_row(row).model_dump_json())

    return _with_secret(database, respond_once(database, idempotent_request, make))


@router.delete(
    "/{subscription_id}",
    summary="Delete a subscription",
    status_code=204,
    response_class=Response,
    responses=problems(403, 404),
)
def delete(
    *,
    visible: VisibleDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Delete a subscription with its deliveries; what waits is not sent."""

    def make(session: Session) -> StoredResponse:
        row = visible.row(session)
        _record(session, actor, "notification.delete", row)
        session.delete(row)
        return StoredResponse(204, {}, "")

    return to_response(respond_once(database, idempotent_request, make))


def subscription_from_row(row: tables.Subscription) -> Subscription:
    """The subscription of a row, without its secrets."""
    return from_row(Subscription, row, {"target": shown_target(row.channel, row.target)})


def _checked_target(text: str, channels: ChannelSettings) -> Target:
    """The receiver. Raises RequestInvalid."""
    has_smtp = channels.smtp_url is not None
    target = read_target(text, extra_schemes=channels.extra_schemes, has_smtp=has_smtp)
    if target.channel == subscriptions.SERVICE:
        error = address_error(target.address, channels.service_schemes)
        if error is not None:
            problem = Problem(FIELD, "invalid_value", error, "an address that apprise cannot use")
            raise RequestInvalid([problem])
    return target


def _project(database: Database, member: Principal, job_id: str | None) -> str:
    """The project of a new subscription: that of its job. Raises NotFound."""
    if job_id is None:
        return member.project
    with database.read() as session:
        project = jobs.project_of(session, job_id)
    if project is None or not member.sees(project):
        raise job_not_found(job_id)
    return project


def _with_secret(database: Database, stored: StoredResponse) -> Response:
    """The response with the secret, which is not part of what is stored for a repeat."""
    shown = Subscription.model_validate_json(stored.body)
    with database.read() as session:
        row = subscriptions.get(session, shown.id, project=None)
        secret = row.secret if row is not None else None
    complete = SubscriptionWithSecret(**shown.model_dump(), secret=secret)
    return to_response(replace(stored, body=complete.model_dump_json()))


def _record(
    session: Session, actor: Actor, action: str, row: tables.Subscription, **data: Any
) -> None:
    facts = {"name": row.name, "channel": row.channel}
    audit.record(session, actor, action, row.id, project=row.project, **facts | data)
