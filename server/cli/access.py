"""`ampserver token …` and `ampserver project …`: access tokens and quotas, in the database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ampspec.api.roles import FORMER_SCOPES, FormerScope, Role, Scope
from server.cli.terminal import fail, read_settings, table

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from store.access.audit import Actor
    from store.tables import Token

token_app = typer.Typer(help="Create, list and revoke access tokens.", no_args_is_help=True)
project_app = typer.Typer(help="List projects and set their quotas.", no_args_is_help=True)

NO_LIMIT: Final = "none"


def _expiry(text: str) -> datetime:
    from ampspec.documents.expiry import parse_expiry  # loads the models of specs

    try:
        return parse_expiry(text, datetime.now(UTC))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _name(text: str) -> str:
    if not 0 < len(text) <= 200 or not text.isprintable():
        raise typer.BadParameter("expected up to 200 printable characters.")
    return text


def _quota_option(what: str, pattern: str, metavar: str, note: str = "") -> Any:
    """An option for a quota: a number that matches the pattern, or NO_LIMIT."""

    def parse(text: str) -> str:
        if text != NO_LIMIT and not re.fullmatch(pattern, text, re.ASCII):
            raise typer.BadParameter(f"expected {what} or {NO_LIMIT!r}, received {text!r}.")
        return text

    keep = f"{NO_LIMIT!r} removes the limit; leave out to keep it."
    return typer.Option(parser=parse, metavar=metavar, help=note + keep)


Quota = Annotated[str | None, _quota_option("a number", r"[0-9]{1,6}", "NUMBER")]
ByteQuota = Annotated[str | None, _quota_option("a number of bytes", r"[0-9]{1,15}", "BYTES")]
HourQuota = Annotated[
    str | None,
    _quota_option("a number of hours", r"[0-9]{1,9}(\.[0-9]{1,6})?", "HOURS", "In 30 days; "),
]
Weight = Annotated[
    float | None,
    typer.Option(
        min=0.001, max=1000, help="Its part of the devices, relative to other projects (1)."
    ),
]


@token_app.command()
def create(
    name: Annotated[
        str, typer.Argument(parser=_name, help="Name of the token, for example its owner's.")
    ],
    role: Annotated[
        Role,
        typer.Option(
            help="admin: everything, in all projects; member: the jobs of its project; viewer: "
            "read-only."
        ),
    ] = Role.MEMBER,
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="jobs:run-code: submit jobs that run custom Python code. Repeatable."),
    ] = None,
    *,
    right: Annotated[list[FormerScope] | None, typer.Option(hidden=True)] = None,
    project: Annotated[str, typer.Option(help="Created if it does not exist.")] = "default",
    expires: Annotated[
        datetime | None,
        typer.Option(
            parser=_expiry,
            metavar="WHEN",
            help="When it expires: 15m, 12h, 30d or 4w from now, or a date (default: never).",
        ),
    ] = None,
    expires_in: Annotated[
        datetime | None, typer.Option(parser=_expiry, metavar="WHEN", hidden=True)
    ] = None,
) -> None:
    """Create a token and print its secret, which cannot be shown again."""
    from store.access import audit, tokens

    expires_at = expires or expires_in  # the name of before
    _check_project(project)
    with _transaction() as (session, actor):
        scopes = sorted({*(scope or ()), *(FORMER_SCOPES[name] for name in right or ())})
        secret = tokens.create(
            session, name, role=role, scopes=scopes, project=project, expires_at=expires_at
        )
        token = tokens.get_by_secret(session, secret)
        assert token is not None  # noqa: S101 - created in this transaction
        details = {"name": name, "role": role, "scopes": scopes}
        audit.record(session, actor, "token.create", token.id, project=project, **details)
    typer.echo(secret)


@token_app.command("list")
def list_tokens() -> None:
    """List every token, newest first. Secrets are not stored and cannot be shown."""
    from store.access import people, tokens

    with _transaction() as (session, _actor):
        listed_tokens = tokens.listing(session)
        owners = people.names(session, {row.owner_id for row in listed_tokens})
    rows = [
        (
            *(row.id, row.name, row.role, " ".join(row.scopes), row.project, _token_state(row)),
            owners.get(row.owner_id or "", "nobody"),
        )
        for row in listed_tokens
    ]
    typer.echo(table(("ID", "NAME", "ROLE", "SCOPES", "PROJECT", "STATE", "OWNER"), *rows))


@token_app.command()
def revoke(token_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Revoke a token, immediately and permanently."""
    from store.access import audit, tokens

    try:
        with _transaction() as (session, actor):
            token = tokens.get(session, token_id)
            if token is None:
                fail(f"There is no token {token_id!r}; `ampserver token list` lists the tokens.")
            if tokens.revoke(session, token):
                audit.record(session, actor, "token.revoke", token.id, project=token.project)
    except tokens.LastAdminToken as error:
        fail(error)
    typer.echo(f"Revoked {token_id}.")


@project_app.command("set")
def set_quotas(
    name: Annotated[str, typer.Argument(help="The project's name.")],
    *,
    max_queued: Quota = None,
    max_running: Quota = None,
    max_devices: Quota = None,
    max_device_hours: HourQuota = None,
    max_dataset_bytes: ByteQuota = None,
    max_artifact_bytes: ByteQuota = None,
    weight: Weight = None,
) -> None:
    """Set quotas and weight of a project; the project is created if it does not exist."""
    from store.access import audit, projects

    _check_project(name)
    limits = {
        "max_queued": max_queued,
        "max_running": max_running,
        "max_devices": max_devices,
        "max_device_hours": max_device_hours,
        "max_dataset_bytes": max_dataset_bytes,
        "max_artifact_bytes": max_artifact_bytes,
    }
    changes: dict[str, float | None] = {
        quota: None if limit == NO_LIMIT else float(limit) if "." in limit else int(limit)
        for quota, limit in limits.items()
        if limit is not None
    }
    if weight is not None:
        changes["weight"] = weight
    with _transaction() as (session, actor):
        is_new = projects.get(session, name) is None
        projects.update(session, name, changes)
        audit.record(session, actor, "project.update", name, project=name, **changes)
        table = _projects(session)
    if is_new:
        typer.echo(f"Created the project {name}.", err=True)
    typer.echo(table)


@project_app.command("list")
def list_projects() -> None:
    """List the projects with their quotas, their queued and running jobs, and stored bytes."""
    with _transaction() as (session, _actor):
        table = _projects(session)
    typer.echo(table)


def _projects(session: Session) -> str:
    from store.access import projects
    from store.files import artifact_quota, datasets
    from store.scheduling import fair_share

    load, dataset_bytes = projects.load_by_project(session), datasets.used_bytes(session)
    artifact_bytes, listed = artifact_quota.stored_bytes(session), projects.listing(session)
    shares = fair_share.project_shares(session.connection(), [row.name for row in listed])
    rows: list[tuple[object, ...]] = []
    for row in listed:
        used, project_share = load.get(row.name, projects.ProjectLoad()), shares[row.name]
        jobs = (used.queued, row.max_queued, used.running, row.max_running)
        hours = (f"{project_share.use.window_hours:.1f}", row.max_device_hours)
        devices = (project_share.use.devices, row.max_devices, *hours)
        stored = (dataset_bytes.get(row.name, 0), row.max_dataset_bytes)
        artifacts = (artifact_bytes.get(row.name, 0), row.max_artifact_bytes)
        share = (f"{row.weight:g}", f"{project_share.share:.2f}")
        rows.append((row.name, *jobs, *devices, *stored, *artifacts, *share))
    heads = ("QUEUED", "MAX QUEUED", "RUNNING", "MAX RUNNING", "DEVICES", "MAX DEVICES")
    more = ("DEVICE HOURS", "MAX DEVICE HOURS", "DATASET BYTES", "MAX DATASET BYTES")
    last = ("ARTIFACT BYTES", "MAX ARTIFACT BYTES", "WEIGHT", "SHARE")
    return table(("PROJECT", *heads, *more, *last), *rows)


def _token_state(token: Token) -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:%Y-%m-%d %H:%M} UTC"
    if token.expires_at is None:
        return "valid"
    verb = "expired" if token.expires_at <= datetime.now(UTC) else "valid until"
    return f"{verb} {token.expires_at:%Y-%m-%d %H:%M} UTC"


def _check_project(name: str) -> None:
    from ampspec.api.projects import PROJECT_NAME

    if not re.fullmatch(PROJECT_NAME, name):
        fail(f"Expected a project's name of the form {PROJECT_NAME}, received {name!r}.")


@contextmanager
def _transaction() -> Iterator[tuple[Session, Actor]]:
    """A write session of the configured database, and the actor for the audit log."""
    from server.cli.database import DatabaseUnusable, describe_database, open_migrated
    from store.access.audit import Actor

    url = read_settings().database_url
    actor = Actor("default", None, "ampserver (command line)", None, None)
    try:
        with open_migrated(url) as database, database.write() as session:
            yield session, actor
    except DatabaseUnusable as error:
        fail(error)
    typer.echo(f"Database: {describe_database(url)}", err=True)
