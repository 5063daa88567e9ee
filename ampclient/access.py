"""`client.tokens`, `client.people`, `client.projects` and `client.retention`: for admins."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Unpack

from ampclient import _endpoints as endpoints
from ampclient._http.deprecation import renamed
from ampclient._http.operations import M, Operations, operation, short_list
from ampclient._http.options import RequestOptions
from ampclient._http.pages import read_pages
from ampspec.api.people import Person
from ampspec.api.projects import Project
from ampspec.api.retention import ProjectRetention, RetentionPreview, RetentionRule
from ampspec.api.tokens import DEFAULT_GRACE_S, CreatedToken, Token
from ampspec.old_names import old_attributes, one_class_for


class Unchanged(Enum):
    """The default of arguments whose None means something: nothing is changed."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED


class Tokens(Operations[M]):
    """The access tokens of a server."""

    @short_list
    def list(
        self, *, limit: int | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[Token, None]:
        """All tokens, including revoked and expired ones; at most `limit`."""
        return read_pages(
            self._transport, endpoints.list_tokens, options, page_size=100, limit=limit
        )

    @operation
    @renamed(rights="scopes")
    async def create(
        self,
        name: str,
        *,
        role: str = "member",
        scopes: Sequence[str] = (),
        project: str = "default",
        expires_at: datetime | None = None,
        **options: Unpack[RequestOptions],
    ) -> CreatedToken:
        """Create a token; only this response contains its `secret`.

        An admin may do everything in every project, a member submits and controls the jobs
        of its project, a viewer reads them. With the scope "jobs:run-code" it may submit jobs
        that run custom Python code, with "project:admin" it manages the tokens and retention rules
        of its project. A project that does not exist is created.
        """
        request: dict[str, Any] = {"name": name, "role": role, "project": project}
        if scopes:
            request["scopes"] = list(scopes)
        if expires_at is not None:
            request["expires_at"] = expires_at.astimezone().isoformat()
        return await self._transport.send(endpoints.create_token(request), **options)

    @operation
    async def rotate(
        self,
        token_id: str,
        *,
        grace_s: float = DEFAULT_GRACE_S,
        **options: Unpack[RequestOptions],
    ) -> CreatedToken:
        """Give a token another secret; only this response contains it.

        The secret before is valid for `grace_s` more seconds, so that its users can change over;
        with 0 it ends at once. Raises NotFound, and Conflict for a revoked or expired token.
        """
        request = endpoints.rotate_token(token_id, grace_s)
        return await self._transport.send(request, **options)

    @operation
    async def revoke(self, token_id: str, **options: Unpack[RequestOptions]) -> None:
        """Revoke a token, immediately and permanently. Raises NotFound."""
        await self._transport.send(endpoints.revoke_token(token_id), **options)


class People(Operations[M]):
    """The people who have signed in with the server's provider."""

    @short_list
    def list(
        self, *, limit: int | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[Person, None]:
        """All people, newest first, with their open sessions; at most `limit`."""
        return read_pages(
            self._transport, endpoints.list_people, options, page_size=100, limit=limit
        )

    @operation
    async def end_access(self, person_id: str, **options: Unpack[RequestOptions]) -> None:
        """End the sessions of a person and revoke its tokens, until it signs in again.

        Take the person out of its groups at the provider first. Raises NotFound.
        """
        await self._transport.send(endpoints.end_access(person_id), **options)

    @operation
    async def sign_out(
        self, person_id: str, session_id: str, **options: Unpack[RequestOptions]
    ) -> None:
        """Sign a person out of one browser. Raises NotFound."""
        request = endpoints.end_person_session(person_id, session_id)
        await self._transport.send(request, **options)


class Projects(Operations[M]):
    """The projects of a server and their quotas."""

    @short_list
    async def list(
        self, *, limit: int | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[Project, None]:
        """All projects with their quotas; at most `limit`."""
        for project in (await self._transport.send(endpoints.list_projects(), **options))[:limit]:
            yield project

    @operation
    async def update(
        self,
        name: str,
        *,
        max_queued: int | Unchanged | None = UNCHANGED,
        max_running: int | Unchanged | None = UNCHANGED,
        max_devices: int | Unchanged | None = UNCHANGED,
        max_device_hours: float | Unchanged | None = UNCHANGED,
        max_dataset_bytes: int | Unchanged | None = UNCHANGED,
        max_artifact_bytes: int | Unchanged | None = UNCHANGED,
        weight: float | Unchanged = UNCHANGED,
        **options: Unpack[RequestOptions],
    ) -> Project:
        """Change quotas and the weight of a project; what is left out stays.

        A project that does not exist is created.

        Args:
            name: The project.
            max_queued: Its jobs that may be queued at one time; None: no limit, as of each quota.
            max_running: Its jobs that may run at one time.
            max_devices: The devices that they may have at one time; each rank has one.
            max_device_hours: The device hours that they may use in 30 days.
            max_dataset_bytes: The stored bytes of its datasets and unfinished uploads.
            max_artifact_bytes: The stored bytes of the artifacts of its jobs.
            weight: Its part of the devices, relative to the weights of other projects.
            options: Of the request.
        """
        quotas = {
            "max_queued": max_queued,
            "max_running": max_running,
            "max_devices": max_devices,
            "max_device_hours": max_device_hours,
            "max_dataset_bytes": max_dataset_bytes,
            "max_artifact_bytes": max_artifact_bytes,
            "weight": weight,
        }
        changes = {key: value for key, value in quotas.items() if not isinstance(value, Unchanged)}
        return await self._transport.send(endpoints.change_project(name, changes), **options)


class Retention(Operations[M]):
    """The retention rules of projects: what is deleted of their jobs, and when."""

    @operation
    async def get(self, project: str, **options: Unpack[RequestOptions]) -> ProjectRetention:
        """The rules of a project, if it has any. Raises NotFound."""
        return await self._transport.send(endpoints.get_retention(project), **options)

    @operation
    async def set(
        self,
        project: str,
        rules: Sequence[RetentionRule | Mapping[str, Any]],
        **options: Unpack[RequestOptions],
    ) -> ProjectRetention:
        """Replace all rules of a project; they are applied each hour, first an hour from now.

        Args:
            project: The project.
            rules: Each as {"delete": "jobs", "after_days": 90, "states": ["failed"],
                "except_labels": {"keep": None}}; see `preview` for what they would delete.
            options: Of the request.
        """
        request = endpoints.replace_retention(project, _documents(rules))
        return await self._transport.send(request, **options)

    @operation
    async def preview(
        self,
        project: str,
        rules: Sequence[RetentionRule | Mapping[str, Any]] | None = None,
        **options: Unpack[RequestOptions],
    ) -> RetentionPreview:
        """What these rules, or without any those of the project, would delete now."""
        documents = None if rules is None else _documents(rules)
        return await self._transport.send(
            endpoints.preview_retention(project, documents), **options
        )

    @operation
    async def remove(self, project: str, **options: Unpack[RequestOptions]) -> None:
        """Remove all rules of a project: nothing more is deleted."""
        await self._transport.send(endpoints.remove_retention(project), **options)


def _documents(rules: Sequence[RetentionRule | Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    return [
        rule.model_dump(mode="json") if isinstance(rule, RetentionRule) else rule for rule in rules
    ]


if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, one_class_for("Tokens", "Projects"))
