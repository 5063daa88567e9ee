"""The service itself: its workers, what a spec may say, who may use it, and what was done."""

from collections.abc import Mapping
from typing import Any, Final

from ampclient.requests.request import (
    JsonRequest,
    idempotency_header,
    items_of,
    params,
    parse_nothing,
    quote_path,
)
from ampcore.api.audit import AuditPage
from ampcore.api.catalog import Policy, PolicyList, SpecKind, SpecKindList
from ampcore.api.projects import Project, ProjectList
from ampcore.api.service import ServerVersion
from ampcore.api.session import Session
from ampcore.api.tokens import CreatedToken, Token, TokenList
from ampcore.api.workers import Worker, WorkerList

AUDIT_PER_PAGE: Final = 100


def list_workers() -> JsonRequest[list[Worker]]:
    """Every worker that the server knows."""
    return JsonRequest(method="GET", path="/workers", read=items_of(WorkerList))


def get_worker(worker_id: str) -> JsonRequest[Worker]:
    """One worker as it is now."""
    return JsonRequest(
        method="GET", path=f"/workers/{quote_path(worker_id)}", read=Worker.from_json
    )


def drain_worker(worker_id: str) -> JsonRequest[Worker]:
    """Ask a worker to give its jobs back and to end."""
    path = f"/workers/{quote_path(worker_id)}/drain"
    return JsonRequest(
        method="POST", path=path, headers=idempotency_header(), read=Worker.from_json
    )


def list_models() -> JsonRequest[list[SpecKind]]:
    """The kinds of model that a spec can name."""
    return JsonRequest(method="GET", path="/models", read=items_of(SpecKindList))


def list_datasets() -> JsonRequest[list[SpecKind]]:
    """The kinds of data that a spec can name."""
    return JsonRequest(method="GET", path="/datasets", read=items_of(SpecKindList))


def list_optimizers() -> JsonRequest[list[SpecKind]]:
    """The kinds of optimizer that a spec can name."""
    return JsonRequest(method="GET", path="/optimizers", read=items_of(SpecKindList))


def list_policies() -> JsonRequest[list[Policy]]:
    """The precision policies that a spec can name."""
    return JsonRequest(method="GET", path="/policies", read=items_of(PolicyList))


def get_version() -> JsonRequest[ServerVersion]:
    """What runs there."""
    return JsonRequest(method="GET", path="/version", read=ServerVersion.from_json)


def get_session() -> JsonRequest[Session]:
    """Who the server takes the token's bearer for."""
    return JsonRequest(method="GET", path="/session", read=Session.from_json)


def list_tokens() -> JsonRequest[list[Token]]:
    """Every token; their secrets are known to nobody."""
    return JsonRequest(method="GET", path="/tokens", read=items_of(TokenList))


def create_token(token: Mapping[str, Any]) -> JsonRequest[CreatedToken]:
    """Make a token; sent again with the same key it is answered with the same secret."""
    return JsonRequest(
        method="POST",
        path="/tokens",
        body=token,
        headers=idempotency_header(),
        read=CreatedToken.from_json,
    )


def revoke_token(token_id: str) -> JsonRequest[None]:
    """Take a token's power away, at once."""
    path = f"/tokens/{quote_path(token_id)}"
    return JsonRequest(method="DELETE", path=path, headers=idempotency_header(), read=parse_nothing)


def list_projects() -> JsonRequest[list[Project]]:
    """Every project."""
    return JsonRequest(method="GET", path="/projects", read=items_of(ProjectList))


def put_project(name: str, quotas: Mapping[str, int | None]) -> JsonRequest[Project]:
    """Set the quotas of a project, which is made if need be."""
    path = f"/projects/{quote_path(name)}"
    return JsonRequest(
        method="PUT", path=path, body=quotas, headers=idempotency_header(), read=Project.from_json
    )


def list_audit(
    *,
    action: str | None,
    project: str | None,
    token_id: str | None,
    limit: int,
    cursor: str | None,
) -> JsonRequest[AuditPage]:
    """A page of who did what."""
    wanted = params(action=action, project=project, token_id=token_id, limit=limit, cursor=cursor)
    return JsonRequest(method="GET", path="/audit", params=wanted, read=AuditPage.from_json)
