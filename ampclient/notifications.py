"""`client.notifications`: messages about jobs, studies and workers."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Unpack

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, Operations, operation, paginated
from ampclient._http.options import RequestOptions
from ampclient._http.pages import read_pages
from ampclient._job.view import JobView
from ampspec.api.notifications import Delivery, Subscription, SubscriptionWithSecret


class Notifications(Operations[M]):
    """The subscriptions to notifications of a project; a member may change them."""

    @operation
    async def create(
        self,
        target: str,
        *,
        name: str | None = None,
        types: Sequence[str] | None = None,
        job: str | JobView | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> SubscriptionWithSecret:
        """Send messages to a receiver.

        Args:
            target: `https://…` for webhooks, signed with the `secret` of the result, which is shown
                only once; `mailto:NAME@HOST`; or the address of a service such as `slack://…`.
            name: What it is called; by default a part of the address.
            types: Types such as "job.failed", and groups such as "job.*". By default the ends of
                jobs and studies; of one job its end.
            job: Only this job (or its id); the end of the job completes the subscription.
            idempotency_key: A repeated call with the same key returns the same subscription.
            **options: Of the request.

        Returns:
            The subscription.

        Raises:
            InvalidRequest: The address is not valid, or the server does not allow it.
        """
        request: dict[str, Any] = {"target": target, "name": name}
        request["types"] = None if types is None else list(types)
        request["job_id"] = None if job is None else endpoints.job_id_of(job)
        sent = {field: value for field, value in request.items() if value is not None}
        return await self._transport.send(
            endpoints.create_subscription(sent, idempotency_key), **options
        )

    @paginated
    def list(
        self,
        *,
        job: str | JobView | None = None,
        limit: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Subscription, None]:
        """The subscriptions, newest first; with `job` only those to this job (or its id)."""
        job_id = None if job is None else endpoints.job_id_of(job)
        page_request = partial(endpoints.list_subscriptions, job_id=job_id)
        return read_pages(self._transport, page_request, options, page_size=100, limit=limit)

    @operation
    async def get(self, subscription_id: str, **options: Unpack[RequestOptions]) -> Subscription:
        """One subscription. Raises NotFound."""
        return await self._transport.send(endpoints.get_subscription(subscription_id), **options)

    @operation
    async def update(
        self,
        subscription_id: str,
        *,
        name: str | None = None,
        types: Sequence[str] | None = None,
        enabled: bool | None = None,
        **options: Unpack[RequestOptions],
    ) -> Subscription:
        """Change the name or the types, or disable and enable it; None changes nothing."""
        fields: dict[str, Any] = {"name": name, "enabled": enabled}
        fields["types"] = None if types is None else list(types)
        changes = {field: value for field, value in fields.items() if value is not None}
        request = endpoints.change_subscription(subscription_id, changes)
        return await self._transport.send(request, **options)

    @operation
    async def rotate(
        self, subscription_id: str, **options: Unpack[RequestOptions]
    ) -> SubscriptionWithSecret:
        """Give a webhook a new `secret`; for a day messages are signed with the previous one, too.

        Raises Conflict for a channel without signatures.
        """
        return await self._transport.send(endpoints.rotate_secret(subscription_id), **options)

    @operation
    async def delete(self, subscription_id: str, **options: Unpack[RequestOptions]) -> None:
        """Delete a subscription with its deliveries; what waits is not sent."""
        await self._transport.send(endpoints.delete_subscription(subscription_id), **options)

    @operation
    async def test(self, subscription_id: str, **options: Unpack[RequestOptions]) -> Delivery:
        """Send a test message. `deliveries` say whether it arrived."""
        return await self._transport.send(endpoints.send_test(subscription_id), **options)

    @paginated
    def deliveries(
        self,
        subscription_id: str,
        *,
        state: str | None = None,
        limit: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[Delivery, None]:
        """The messages of the last 30 days and how they were sent, newest first.

        With `state` only those that are "pending", "delivered" or "failed".
        """
        page_request = partial(
            endpoints.list_deliveries, subscription_id=subscription_id, state=state
        )
        return read_pages(self._transport, page_request, options, page_size=100, limit=limit)

    @operation
    async def resend(
        self, subscription_id: str, delivery_id: str, **options: Unpack[RequestOptions]
    ) -> Delivery:
        """Send a message again that was delivered or has failed, with the same id and body.

        Raises Conflict while it is pending.
        """
        request = endpoints.resend_delivery(subscription_id, delivery_id)
        return await self._transport.send(request, **options)

    @operation
    async def resend_failed(
        self, subscription_id: str, since: datetime, **options: Unpack[RequestOptions]
    ) -> int:
        """Send the messages again that were written since then and have failed; their number."""
        request = endpoints.resend_failed(subscription_id, since.astimezone().isoformat())
        return (await self._transport.send(request, **options)).count
