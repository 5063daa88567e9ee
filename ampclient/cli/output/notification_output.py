"""Prints notifications and their deliveries as tables."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.output.tables import ago, print_table

if TYPE_CHECKING:
    from ampspec.api.notifications import Delivery, Subscription


def print_subscriptions(subscriptions: Iterable["Subscription"]) -> None:
    """One row for each notification."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("ID"),
        TableColumn("NAME", min_width=12),
        TableColumn("TARGET", min_width=16),
        TableColumn("TYPES", min_width=12, wraps=True),
        TableColumn("JOB", drop_order=1),
        TableColumn("STATE", min_width=8),
        TableColumn("CREATED", align_right=True, drop_order=2),
    )
    rows = [
        (
            subscription.id,
            formats.printable(subscription.name),
            formats.printable(subscription.target),
            " ".join(subscription.types),
            subscription.job_id or UNKNOWN,
            state_of(subscription),
            ago(subscription.created_at),
        )
        for subscription in subscriptions
    ]
    print_table(columns, rows)


def print_subscription(subscription: "Subscription") -> None:
    """The fields of one notification."""
    print_subscriptions([subscription])
    if subscription.disabled_reason:
        typer.echo(formats.printable(subscription.disabled_reason))


def state_of(subscription: "Subscription") -> str:
    """Whether messages are sent, in one word."""
    if subscription.disabled_at is not None:
        return "disabled"
    if subscription.completed_at is not None:
        return "completed"
    return "failing" if subscription.failing_since is not None else "enabled"


def print_deliveries(deliveries: Iterable["Delivery"]) -> None:
    """One row for each message."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("ID"),
        TableColumn("TYPE"),
        TableColumn("STATE"),
        TableColumn("TRIES", align_right=True),
        TableColumn("STATUS", align_right=True),
        TableColumn("ERROR", min_width=16, wraps=True),
        TableColumn("CREATED", align_right=True),
    )
    rows = [
        (
            delivery.id,
            delivery.type,
            delivery.state,
            str(delivery.attempts),
            UNKNOWN if delivery.status_code is None else str(delivery.status_code),
            formats.printable(delivery.error or UNKNOWN),
            ago(delivery.created_at),
        )
        for delivery in deliveries
    ]
    print_table(columns, rows)
