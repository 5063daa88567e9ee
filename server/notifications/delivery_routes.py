"""List deliveries, send a test, and send messages again."""

from typing import Annotated

from fastapi import Path, Query, Response
from sqlalchemy.orm import Session

from ampspec.api.notifications import (
    Delivery,
    DeliveryPage,
    DeliveryState,
    ResendRequest,
    Resent,
)
from ampspec.notifications.messages import example_message
from server.deps import ActorDep, DatabaseDep
from server.documentation.openapi import problems
from server.errors import Conflict, NotFound
from server.http.json_body import JsonRoute
from server.http.newest_first import Cursor, cursor_of, page_of, read_cursor
from server.http.responses import to_response
from server.http.router import api_router
from server.idempotency import IdempotentRequestDep, respond_once
from server.notifications.routes import VisibleDep
from server.row_models import from_row
from store import tables
from store.access import audit
from store.access.idempotency import StoredResponse
from store.notifications import deliveries, outbox
from store.tables import new_id

router = api_router(
    "/notifications/{subscription_id}", tags=["notifications"], route_class=JsonRoute
)

DeliveryId = Annotated[
    str, Path(description="The delivery's id.", max_length=32, pattern="^[0-9a-f]+$")
]
StateFilter = Annotated[DeliveryState | None, Query(description="Only those in this state.")]


@router.get(
    "/deliveries",
    summary="List the messages to a receiver, and how they were sent",
    responses=problems(403, 404, 422),
)
def listing(
    *,
    visible: VisibleDep,
    database: DatabaseDep,
    state: StateFilter = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    cursor: Cursor = None,
) -> DeliveryPage:
    """List the messages of the last 30 days, newest first; at most 1,000 that have ended."""
    with database.read() as session:
        subscription = visible.row(session)
        rows, has_more = page_of(
            deliveries.page(
                session,
                subscription.id,
                state=state,
                position=read_cursor(cursor),
                limit=limit + 1,
            ),
            limit,
        )
        items = [from_row(Delivery, row) for row in rows]
    next_cursor = cursor_of(items[-1].created_at, items[-1].id) if has_more else None
    return DeliveryPage(items=items, next_cursor=next_cursor)


@router.post(
    "/test",
    summary="Send a test message",
    status_code=202,
    response_model=Delivery,
    responses=problems(403, 404, 409),
)
def test(
    *,
    visible: VisibleDep,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Send a message of the type `notification.test`; its delivery says whether it arrived."""

    def make(session: Session) -> StoredResponse:
        row = visible.row(session)
        _check_enabled(row)
        message = example_message(row.name)
        delivery_id = outbox.write(session, row, message, f"{message.type} {new_id()}")
        audit.record(session, actor, "notification.test", row.id, project=row.project)
        return _response(session, row.id, delivery_id)

    return to_response(respond_once(database, idempotent_request, make))


@router.post(
    "/resend",
    summary="Send again what has failed",
    status_code=202,
    response_model=Resent,
    responses=problems(403, 404, 409, 422),
)
def resend_failed(
    *,
    visible: VisibleDep,
    request: ResendRequest,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Send the messages again that were written since a time and have failed."""

    def make(session: Session) -> StoredResponse:
        row = visible.row(session)
        _check_enabled(row)
        count = deliveries.resend_failed(session, row.id, request.since)
        facts = {"since": request.since.isoformat(), "count": count}
        audit.record(session, actor, "notification.resend", row.id, project=row.project, **facts)
        return StoredResponse(202, {}, Resent(count=count).model_dump_json())

    return to_response(respond_once(database, idempotent_request, make))


@router.post(
    "/deliveries/{delivery_id}/resend",
    summary="Send a message again",
    status_code=202,
    response_model=Delivery,
    responses=problems(403, 404, 409),
)
def resend(
    *,
    visible: VisibleDep,
    delivery_id: DeliveryId,
    actor: ActorDep,
    database: DatabaseDep,
    idempotent_request: IdempotentRequestDep,
) -> Response:
    """Send a message again that was delivered or has failed, with the same id and body."""

    def make(session: Session) -> StoredResponse:
        row = visible.row(session)
        _check_enabled(row)
        if deliveries.get(session, row.id, delivery_id) is None:
            raise NotFound(f"There is no delivery {delivery_id!r} of this subscription.")
        if deliveries.resend(session, delivery_id) is None:
            raise Conflict("Expected a delivery that has ended; this one is still pending.")
        facts = {"delivery": delivery_id}
        audit.record(session, actor, "notification.resend", row.id, project=row.project, **facts)
        return _response(session, row.id, delivery_id)

    return to_response(respond_once(database, idempotent_request, make))


def _check_enabled(row: tables.Subscription) -> None:
    if row.disabled_at is not None:
        raise Conflict("Expected a subscription that is enabled; enable this one first.")


def _response(session: Session, subscription_id: str, delivery_id: str) -> StoredResponse:
    row = deliveries.get(session, subscription_id, delivery_id)
    return StoredResponse(202, {}, from_row(Delivery, row).model_dump_json())
