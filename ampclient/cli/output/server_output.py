"""Prints workers, tokens, projects and the audit log as tables."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ampclient._display import formats
from ampclient._display.formats import UNKNOWN
from ampclient.cli.output.tables import ago, fields_text, print_table

if TYPE_CHECKING:
    from ampspec.api.audit import AuditEntry
    from ampspec.api.people import Person
    from ampspec.api.projects import Project
    from ampspec.api.tokens import Token
    from ampspec.api.workers import Worker


def print_workers(workers: Iterable["Worker"]) -> None:
    """One row for each worker."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("ID"),
        TableColumn("HOST", min_width=12),
        TableColumn("STATE"),
        TableColumn("BUSY", align_right=True),
        TableColumn("QUEUES", min_width=12, wraps=True),
        TableColumn("HARDWARE", min_width=16, wraps=True, drop_order=1),
        TableColumn("VERSION", drop_order=2),
        TableColumn("LAST SEEN", align_right=True),
        TableColumn("JOBS", min_width=12, wraps=True),
    )
    rows = [
        (
            worker.id,
            formats.printable(worker.hostname),
            "draining" if worker.draining and worker.state == "online" else worker.state,
            f"{len(worker.jobs)}/{worker.slots}",
            f"job {worker.job_id}" if worker.job_id else " ".join(worker.queues) or UNKNOWN,
            formats.printable(hardware(worker.hardware)),
            worker.version,
            ago(worker.last_seen_at),
            " ".join(worker.jobs) or UNKNOWN,
        )
        for worker in workers
    ]
    print_table(columns, rows)


def hardware(facts: Mapping[str, Any] | None) -> str:
    """The devices of a worker: its accelerators, else its CPU."""
    devices = [d for d in (facts or {}).get("devices") or () if isinstance(d, Mapping)]
    accelerators = [device for device in devices if device.get("kind") != "cpu"]
    return ", ".join(_device(device) for device in accelerators or devices) or UNKNOWN


def print_tokens(tokens: Iterable["Token"]) -> None:
    """One row for each token."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("ID"),
        TableColumn("NAME", min_width=12),
        TableColumn("ROLE"),
        TableColumn("SCOPES", drop_order=3),
        TableColumn("PROJECT"),
        TableColumn("STATE"),
        TableColumn("CREATED", align_right=True, drop_order=2),
        TableColumn("BY", drop_order=1),
        TableColumn("OWNER", drop_order=4),
    )
    rows = [
        (
            token.id,
            formats.printable(token.name),
            token.role,
            " ".join(token.scopes),
            token.project,
            token_state(token),
            ago(token.created_at),
            formats.printable(token.created_by or UNKNOWN),
            formats.printable(token.owner or token.owner_id or "nobody"),
        )
        for token in tokens
    ]
    print_table(columns, rows)


def print_people(people: Iterable["Person"]) -> None:
    """One row for each person, and below it one for each of its open sessions."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("ID"),
        TableColumn("PERSON", min_width=12),
        TableColumn("MAY DO", drop_order=2),
        TableColumn("SIGNED IN", align_right=True, drop_order=1),
        TableColumn("SESSIONS"),
    )
    rows = [
        (
            person.id,
            formats.printable(person.email or person.name),
            "; ".join(
                " ".join((f"{grant.role} of {grant.project}", *grant.scopes))
                for grant in person.grants
            )
            or "nothing",
            ago(person.signed_in_at),
            ", ".join(f"{session.id} ({session.address})" for session in person.sessions) or "none",
        )
        for person in people
    ]
    print_table(columns, rows)


def token_state(token: "Token") -> str:
    """The state of a token: valid, expired or revoked."""
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is None:
        return "valid"
    if token.expires_at <= datetime.now(UTC):
        return "expired"
    return f"valid until {formats.moment(token.expires_at)}"


def print_projects(projects: Iterable["Project"]) -> None:
    """One row for each project."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("PROJECT"),
        TableColumn("QUEUED", align_right=True),
        TableColumn("MAX", align_right=True),
        TableColumn("RUNNING", align_right=True),
        TableColumn("MAX", align_right=True),
        TableColumn("DEVICES", align_right=True),
        TableColumn("MAX", align_right=True),
        TableColumn("HOURS", align_right=True),
        TableColumn("MAX", align_right=True),
        TableColumn("DATASETS", align_right=True, drop_order=2),
        TableColumn("MAX", align_right=True, drop_order=3),
        TableColumn("ARTIFACTS", align_right=True, drop_order=4),
        TableColumn("MAX", align_right=True, drop_order=5),
        TableColumn("WEIGHT", align_right=True),
        TableColumn("SHARE", align_right=True),
        TableColumn("CREATED", align_right=True, drop_order=1),
    )
    rows = [
        (
            project.name,
            str(project.queued),
            _quota(project.max_queued),
            str(project.running),
            _quota(project.max_running),
            str(project.devices),
            _quota(project.max_devices),
            formats.number(project.device_hours),
            _quota(project.max_device_hours),
            formats.size(project.dataset_bytes),
            _byte_quota(project.max_dataset_bytes),
            formats.size(project.artifact_bytes),
            _byte_quota(project.max_artifact_bytes),
            f"{project.weight:g}",
            formats.number(project.share),
            ago(project.created_at),
        )
        for project in projects
    ]
    print_table(columns, rows)


def print_audit(entries: Iterable["AuditEntry"]) -> None:
    """One row per audit entry."""
    from ampclient._display.terminal_table import TableColumn

    columns = (
        TableColumn("TIME"),
        TableColumn("BY", min_width=12),
        TableColumn("ACTION"),
        TableColumn("TARGET"),
        TableColumn("PROJECT", drop_order=2),
        TableColumn("FROM", drop_order=1),
        TableColumn("DATA", min_width=16, wraps=True),
    )
    rows = [
        (
            formats.moment(entry.at),
            formats.printable(entry.token_name or UNKNOWN),
            entry.action,
            formats.printable(entry.target or UNKNOWN),
            entry.project or UNKNOWN,
            entry.address or UNKNOWN,
            formats.printable(fields_text(entry.data or {})) or UNKNOWN,
        )
        for entry in entries
    ]
    print_table(columns, rows)


def _quota(limit: float | None) -> str:
    return "no limit" if limit is None else f"{limit:g}"


def _byte_quota(limit: int | None) -> str:
    return "no limit" if limit is None else formats.size(limit)


def _device(device: Mapping[str, Any]) -> str:
    name = str(device.get("name") or device.get("kind") or "?")
    if cores := device.get("cores"):
        return f"{name} ({cores} cores)"
    size_bytes = device.get("memory_bytes")
    return f"{name} ({formats.size(size_bytes)})" if isinstance(size_bytes, int) else name
