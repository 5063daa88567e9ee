"""Deliver messages: claim what is due, send it, record how that ended."""

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

from server.notifications.channels import ChannelSettings
from server.notifications.services import send_email, send_to_service
from server.notifications.tries import Response, try_result
from store.database import Database
from store.notifications import deliveries
from store.notifications.deliveries import ClaimedDelivery
from store.notifications.subscriptions import EMAIL, WEBHOOK

log = logging.getLogger(__name__)


class Deliverer:
    """Sends messages; several servers may do this at the same time.

    Args:
        database: Where the deliveries are.
        channels: What the operator allows.
        **request_options: Of `server.notifications.webhook.send_webhook`.
    """

    def __init__(
        self, database: Database, channels: ChannelSettings, **request_options: Any
    ) -> None:
        self._database, self._channels = database, channels
        self._request_options = request_options

    def claim(self, limit: int) -> Sequence[ClaimedDelivery]:
        """Claim up to `limit` deliveries that are due."""
        with self._database.autocommit() as connection:
            if not deliveries.has_due(connection):
                return ()
        with self._database.write() as session:
            return deliveries.claim(session, limit=limit)

    def deliver(self, claimed: ClaimedDelivery) -> None:
        """Try a delivery once, and record how that ended."""
        started_at = time.monotonic()
        try:
            response = self._send(claimed)
        except Exception:
            log.exception("delivery %s failed unexpectedly", claimed.id)
            response = Response("Sending failed unexpectedly; see the log of the server.")
        result = try_result(claimed.attempts, response, time.monotonic() - started_at)
        with self._database.write() as session:
            is_recorded = deliveries.record(session, claimed, result)
        if not is_recorded:
            log.warning("delivery %s was claimed by another server meanwhile", claimed.id)

    def _send(self, claimed: ClaimedDelivery) -> Response:
        if claimed.channel == WEBHOOK:
            # Imported with the first message: most servers send none, and it takes memory.
            from server.notifications.webhook import send_webhook, signed_headers

            headers = signed_headers(f"msg_{claimed.id}", claimed.body, claimed.secrets)
            policy = self._channels.policy
            return send_webhook(
                claimed.target, claimed.body, headers, policy, **self._request_options
            )
        data = json.loads(claimed.body)["data"]
        title = data["title"]
        text = "\n".join(filter(None, (data["text"], data["link"])))
        if claimed.channel == EMAIL:
            if self._channels.smtp_url is None:
                return Response("The server has no AMPCORE_SMTP_URL any more.")
            return Response(send_email(self._channels.smtp_url, claimed.target, title, text))
        schemes = self._channels.service_schemes
        return Response(
            send_to_service(claimed.target, title, text, self._channels.policy, schemes)
        )
