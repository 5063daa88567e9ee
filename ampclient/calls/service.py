"""The service itself: its workers, what a spec may say, who may use it, and what was done."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ampclient.calls.call import Call, items, keyed, nothing, params, segment
from ampclient.views import (
    AuditEntry,
    Kind,
    NewToken,
    Policy,
    Project,
    ServerVersion,
    Session,
    Token,
    Worker,
)

AUDIT_PER_PAGE: Final = 100


@dataclass(frozen=True)
class AuditPage:
    """Some entries, newest first, and where the list goes on."""

    entries: list[AuditEntry]
    next_cursor: str | None


def list_workers() -> Call[list[Worker]]:
    """Every worker that the server knows."""
    return Call(method="GET", path="/workers", read=items(Worker))


def get_worker(worker_id: str) -> Call[Worker]:
    """One worker as it is now."""
    return Call(method="GET", path=f"/workers/{segment(worker_id)}", read=Worker.from_json)


def drain_worker(worker_id: str) -> Call[Worker]:
    """Ask a worker to give its jobs back and to end."""
    path = f"/workers/{segment(worker_id)}/drain"
    return Call(method="POST", path=path, headers=keyed(), read=Worker.from_json)


def list_models() -> Call[list[Kind]]:
    """The kinds of model that a spec can name."""
    return Call(method="GET", path="/models", read=items(Kind))


def list_datasets() -> Call[list[Kind]]:
    """The kinds of data that a spec can name."""
    return Call(method="GET", path="/datasets", read=items(Kind))


def list_optimizers() -> Call[list[Kind]]:
    """The kinds of optimizer that a spec can name."""
    return Call(method="GET", path="/optimizers", read=items(Kind))


def list_policies() -> Call[list[Policy]]:
    """The precision policies that a spec can name."""
    return Call(method="GET", path="/policies", read=items(Policy))


def get_version() -> Call[ServerVersion]:
    """What runs there."""
    return Call(method="GET", path="/version", read=ServerVersion.from_json)


def get_session() -> Call[Session]:
    """Who the server takes the token's bearer for."""
    return Call(method="GET", path="/session", read=Session.from_json)


def list_tokens() -> Call[list[Token]]:
    """Every token; their secrets are known to nobody."""
    return Call(method="GET", path="/tokens", read=items(Token))


def create_token(token: Mapping[str, Any]) -> Call[NewToken]:
    """Make a token; sent again with the same key it is answered with the same secret."""
    return Call(method="POST", path="/tokens", body=token, headers=keyed(), read=NewToken.from_json)


def revoke_token(token_id: str) -> Call[None]:
    """Take a token's power away, at once."""
    path = f"/tokens/{segment(token_id)}"
    return Call(method="DELETE", path=path, headers=keyed(), read=nothing)


def list_projects() -> Call[list[Project]]:
    """Every project."""
    return Call(method="GET", path="/projects", read=items(Project))


def put_project(name: str, quotas: Mapping[str, int | None]) -> Call[Project]:
    """Set the quotas of a project, which is made if need be."""
    path = f"/projects/{segment(name)}"
    return Call(method="PUT", path=path, body=quotas, headers=keyed(), read=Project.from_json)


def list_audit(
    *,
    action: str | None,
    project: str | None,
    token_id: str | None,
    limit: int,
    cursor: str | None,
) -> Call[AuditPage]:
    """A page of who did what."""
    wanted = params(action=action, project=project, token_id=token_id, limit=limit, cursor=cursor)
    return Call(method="GET", path="/audit", params=wanted, read=_audit_page)


def _audit_page(document: Any) -> AuditPage:
    return AuditPage(items(AuditEntry)(document), document["next_cursor"])
