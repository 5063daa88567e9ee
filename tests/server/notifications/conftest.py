"""Fixtures of the tests of notifications."""

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from infra.address_policy import AddressPolicy
from server.notifications.channels import ChannelSettings
from server.notifications.deliverer import Deliverer
from store.notifications import subscriptions
from tests.webhook_receiver import Receiver, webhook_receiver

LOOPBACK = AddressPolicy((ip_network("127.0.0.0/8"),))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A running receiver of webhooks."""
    with webhook_receiver() as receiver:
        yield receiver


@pytest.fixture
def channels() -> ChannelSettings:
    """The receivers of a test are on this machine."""
    return ChannelSettings(LOOPBACK, frozenset({"http", "json"}))


@pytest.fixture
def deliverer(database: Any, channels: ChannelSettings) -> Deliverer:
    """Sends the messages of a test's database."""
    return Deliverer(database, channels)


@pytest.fixture
def subscribe(database: Any) -> Any:
    """Create a subscription to the pauses of jobs."""

    def subscribe(target: str, channel: str = "webhook", **values: Any) -> Any:
        values = {"project": "default", "name": "n", "types": ["job.paused"], **values}
        with database.write() as session:
            return subscriptions.create(session, channel=channel, target=target, **values)

    return subscribe
