"""`ampctl notification`: messages about jobs, studies and workers to webhooks, services, e-mail."""

from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ampclient.cli.options import AsJson, Limit, client_of
from ampclient.cli.output.formats import Output, OutputFormat, chosen, print_item, print_items
from ampclient.cli.output.notification_output import (
    print_deliveries,
    print_subscription,
    print_subscriptions,
)
from ampclient.cli.output.tables import print_json
from ampspec.documents.expiry import UNITS, parse_expiry

if TYPE_CHECKING:
    from ampspec.api.notifications import SubscriptionWithSecret

group = typer.Typer(
    help="Send messages about jobs, studies and workers to webhooks, services and e-mail.",
    no_args_is_help=True,
)

KEEP_IT: Final = (
    "Keep the secret above, with which the receiver verifies messages: it is not shown again."
)

SubscriptionId = Annotated[
    str, typer.Argument(metavar="ID", help="The notification's id.", show_default=False)
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="A type such as job.failed, or a group such as job.*. Repeatable.",
        show_default="the ends of jobs and studies",
    ),
]
Name = Annotated[
    str | None, typer.Option(help="What it is called.", show_default="made of the address")
]


def _moment(text: str) -> datetime:
    """The moment that a duration ago, or a date, names."""
    now = datetime.now(UTC)
    try:
        moment = parse_expiry(text, now)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return now - (moment - now) if text[-1:] in UNITS else moment


@group.command()
def create(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="https://…, mailto:NAME@HOST, or a service such as slack://….",
            show_default=False,
        ),
    ],
    *,
    name: Name = None,
    types: Types = None,
    job: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only the end of this job.", show_default="every job"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send messages of the project to a receiver; prints the secret of a webhook (only once)."""
    notifications = client_of(context).notifications
    subscription = notifications.create(target, name=name, types=types or None, job=job)
    _print_with_secret(subscription, as_json=as_json)


@group.command(name="list")
def list_(
    context: typer.Context,
    *,
    limit: Limit = None,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the notifications of the project."""
    print_items(
        client_of(context).notifications.list(limit=limit),
        chosen(output, as_json=as_json),
        print_subscriptions,
        name=attrgetter("id"),
        empty="No notifications. Create one with: ampctl notification create TARGET",
    )


@group.command()
def show(
    context: typer.Context,
    subscription_id: SubscriptionId,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show one notification."""
    subscription = client_of(context).notifications.get(subscription_id)
    form = chosen(output, as_json=as_json)
    print_item(subscription, form, print_subscription, name=attrgetter("id"))


@group.command()
def edit(
    context: typer.Context,
    subscription_id: SubscriptionId,
    *,
    name: Name = None,
    types: Types = None,
    as_json: AsJson = False,
) -> None:
    """Change the name or the types of a notification."""
    if name is None and not types:
        raise typer.BadParameter("give --name or --type")
    notifications = client_of(context).notifications
    subscription = notifications.update(subscription_id, name=name, types=types or None)
    if as_json:
        print_json(subscription.to_json())
    else:
        print_subscription(subscription)


@group.command(name="test")
def send_test(
    context: typer.Context, subscription_id: SubscriptionId, as_json: AsJson = False
) -> None:
    """Send a test message."""
    delivery = client_of(context).notifications.test(subscription_id)
    if as_json:
        print_json(delivery.to_json())
    else:
        typer.echo(
            f"{delivery.id} is on its way. Whether it arrived: "
            f"ampctl notification deliveries {subscription_id}"
        )


@group.command()
def rotate(
    context: typer.Context, subscription_id: SubscriptionId, as_json: AsJson = False
) -> None:
    """Give a webhook a new secret; for a day messages are signed with the previous one, too."""
    subscription = client_of(context).notifications.rotate(subscription_id)
    _print_with_secret(subscription, as_json=as_json)


@group.command()
def enable(
    context: typer.Context, subscription_id: SubscriptionId, as_json: AsJson = False
) -> None:
    """Send messages again after a notification was disabled."""
    _set_enabled(context, subscription_id, enabled=True, as_json=as_json)


@group.command()
def disable(
    context: typer.Context, subscription_id: SubscriptionId, as_json: AsJson = False
) -> None:
    """Send nothing more; what waits has failed."""
    _set_enabled(context, subscription_id, enabled=False, as_json=as_json)


@group.command()
def deliveries(
    context: typer.Context,
    subscription_id: SubscriptionId,
    *,
    state: Annotated[
        str | None,
        typer.Option(help="Only those that are pending, delivered or failed.", show_default="all"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of rows.")] = 50,
    output: Output = OutputFormat.TABLE,
    as_json: AsJson = False,
) -> None:
    """List the messages of the last 30 days and how they were sent, newest first."""
    notifications = client_of(context).notifications
    print_items(
        notifications.deliveries(subscription_id, state=state, limit=limit),
        chosen(output, as_json=as_json),
        print_deliveries,
        name=attrgetter("id"),
        empty="No messages.",
    )


@group.command()
def resend(
    context: typer.Context,
    subscription_id: SubscriptionId,
    delivery_id: Annotated[
        str | None, typer.Argument(metavar="[DELIVERY]", help="One message.", show_default=False)
    ] = None,
    *,
    since: Annotated[
        datetime | None,
        typer.Option(
            parser=_moment,
            metavar="WHEN",
            help="All that have failed since then: 2h, 3d or a date.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send a message again, or all that have failed since a time; with the same ids."""
    if (delivery_id is None) == (since is None):
        raise typer.BadParameter("give the id of a delivery, or --since")
    notifications = client_of(context).notifications
    if since is not None:
        count = notifications.resend_failed(subscription_id, since)
        if as_json:
            print_json({"count": count})
        else:
            typer.echo(f"messages to send again: {count}")
    elif delivery_id is not None:
        delivery = notifications.resend(subscription_id, delivery_id)
        if as_json:
            print_json(delivery.to_json())
        else:
            typer.echo(f"{delivery.id} is sent again")


@group.command()
def delete(
    context: typer.Context, subscription_id: SubscriptionId, as_json: AsJson = False
) -> None:
    """Delete a notification with its list of messages; what waits is not sent."""
    client_of(context).notifications.delete(subscription_id)
    if as_json:
        print_json({"id": subscription_id})
    else:
        typer.echo(f"{subscription_id} deleted")


def _set_enabled(
    context: typer.Context, subscription_id: str, *, enabled: bool, as_json: bool
) -> None:
    subscription = client_of(context).notifications.update(subscription_id, enabled=enabled)
    if as_json:
        print_json(subscription.to_json())
    else:
        typer.echo(f"{subscription.id} {'enabled' if enabled else 'disabled'}")


def _print_with_secret(subscription: "SubscriptionWithSecret", *, as_json: bool) -> None:
    if as_json:
        print_json(subscription.to_json())
        return
    if subscription.secret is None:
        typer.echo(subscription.id)
        return
    typer.echo(subscription.secret)
    typer.echo(f"Notification {subscription.id} to {subscription.target}. {KEEP_IT}", err=True)
