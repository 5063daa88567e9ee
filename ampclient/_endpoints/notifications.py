"""Requests of notifications."""

from collections.abc import Mapping
from typing import Any

from ampclient._endpoints.request import (
    JsonRequest,
    idempotency_header,
    params,
    parse_nothing,
    quote_path,
)
from ampspec.api.notifications import (
    Delivery,
    DeliveryPage,
    Resent,
    Subscription,
    SubscriptionPage,
    SubscriptionWithSecret,
)

PATH = "/notifications"


def create_subscription(
    subscription: Mapping[str, Any], key: str | None = None
) -> JsonRequest[SubscriptionWithSecret]:
    """Create a subscription; the same key returns the same one."""
    headers, read = idempotency_header(key), SubscriptionWithSecret.from_json
    return JsonRequest(method="POST", path=PATH, body=subscription, headers=headers, read=read)


def list_subscriptions(
    limit: int, cursor: str | None, *, job_id: str | None
) -> JsonRequest[SubscriptionPage]:
    """A page of subscriptions, newest first."""
    place = params(limit=limit, cursor=cursor, job_id=job_id)
    return JsonRequest(method="GET", path=PATH, params=place, read=SubscriptionPage.from_json)


def get_subscription(subscription_id: str) -> JsonRequest[Subscription]:
    """One subscription."""
    return JsonRequest(method="GET", path=_path(subscription_id), read=Subscription.from_json)


def change_subscription(
    subscription_id: str, changes: Mapping[str, Any]
) -> JsonRequest[Subscription]:
    """Change the name or the types of a subscription, or disable and enable it."""
    path, headers = _path(subscription_id), idempotency_header()
    read = Subscription.from_json
    return JsonRequest(method="PATCH", path=path, body=changes, headers=headers, read=read)


def rotate_secret(subscription_id: str) -> JsonRequest[SubscriptionWithSecret]:
    """Give a webhook a new secret."""
    path, read = _path(subscription_id, "rotate"), SubscriptionWithSecret.from_json
    return JsonRequest(method="POST", path=path, headers=idempotency_header(), read=read)


def delete_subscription(subscription_id: str) -> JsonRequest[None]:
    """Delete a subscription with its deliveries."""
    path, headers = _path(subscription_id), idempotency_header()
    return JsonRequest(method="DELETE", path=path, headers=headers, read=parse_nothing)


def send_test(subscription_id: str) -> JsonRequest[Delivery]:
    """Send a test message."""
    path, headers = _path(subscription_id, "test"), idempotency_header()
    return JsonRequest(method="POST", path=path, headers=headers, read=Delivery.from_json)


def list_deliveries(
    limit: int, cursor: str | None, *, subscription_id: str, state: str | None
) -> JsonRequest[DeliveryPage]:
    """A page of the messages to a receiver, newest first."""
    path, place = _path(subscription_id, "deliveries"), params(limit=limit, cursor=cursor)
    place += params(state=state)
    return JsonRequest(method="GET", path=path, params=place, read=DeliveryPage.from_json)


def resend_delivery(subscription_id: str, delivery_id: str) -> JsonRequest[Delivery]:
    """Send a message again."""
    path = _path(subscription_id, "deliveries", quote_path(delivery_id), "resend")
    headers = idempotency_header()
    return JsonRequest(method="POST", path=path, headers=headers, read=Delivery.from_json)


def resend_failed(subscription_id: str, since: str) -> JsonRequest[Resent]:
    """Send the messages again that have failed."""
    path, body = _path(subscription_id, "resend"), {"since": since}
    headers, read = idempotency_header(), Resent.from_json
    return JsonRequest(method="POST", path=path, body=body, headers=headers, read=read)


def _path(subscription_id: str, *segments: str) -> str:
    return "/".join([PATH, quote_path(subscription_id), *segments])
