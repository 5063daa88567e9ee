"""`client.models`: the model registry. Register, promote, download and describe models."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ampclient import _endpoints as endpoints
from ampclient._http.deprecation import warn_deprecated
from ampclient._http.operations import M, Operations, operation, paginated
from ampclient._http.options import RequestOptions
from ampclient._http.pages import read_pages
from ampclient._job.view import JobView
from ampclient._transfer.downloads import RemoteFile, download, is_safe_file_name
from ampclient._transfer.progress import OnProgress, current_bytes_callback, no_progress
from ampclient.access import UNCHANGED, Unchanged
from ampclient.errors import NotFound, PromotionRefused, UnexpectedResponse
from ampspec.api.catalog import SpecKind
from ampspec.api.models import AliasChange, Model, ModelVersion
from ampspec.references.model_reference import ModelReference

if TYPE_CHECKING:

    class VersionFields(ModelVersion):
        """The fields of a version, which `__getattr__` finds."""

else:
    VersionFields = object


class RegisteredVersion(Operations[M], VersionFields):
    """A version of a model, whose fields it has, with the operations on it."""

    @classmethod
    def bind(cls, view: ModelVersion, operations: Operations[Any]) -> "RegisteredVersion[M]":
        """A version that sends its requests as `operations` do."""
        version = object.__new__(cls)
        version.__dict__.update(
            _view=view, _transport=operations._transport, _mode=operations._mode
        )
        return version

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_view" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self.__dict__["_view"], name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a version is an immutable view: {name} cannot be set")

    def __eq__(self, value: object) -> bool:
        """Whether this is a version with the same fields."""
        return isinstance(value, RegisteredVersion) and self._fields == value._fields

    def __hash__(self) -> int:
        return hash(self.reference)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.reference} of job {self.job_id}>"

    @property
    def _fields(self) -> ModelVersion:
        view: ModelVersion = self.__dict__["_view"]
        return view

    def to_json(self) -> dict[str, Any]:
        """The version as in the response; see `ApiModel.to_json`."""
        return self._fields.to_json()

    @operation
    async def download(
        self,
        to: str | PathLike[str] = ".",
        *,
        format: str = "keras",  # noqa: A002 - as the API calls it
        on_progress: OnProgress = no_progress,
    ) -> Path:
        """Download this version; see `Models.download`."""
        progress = current_bytes_callback(on_progress)
        return await _download(self, self._fields, Path(to), format, progress)

    @operation
    async def card(self) -> str:
        """The model card, as Markdown."""
        return await _read_card(self, ModelReference(self.model, self.number))


class Models(Operations[M]):
    """The registered models of the token's project.

    References are "digits" (the newest version), "digits:3" and "digits@champion".
    """

    @operation
    async def __call__(self, **options: Unpack[RequestOptions]) -> list[SpecKind]:
        """The kinds of model that a spec can name: the old name of `client.model_kinds()`."""
        warn_deprecated("client.models() is now client.model_kinds().")
        return await self._transport.send(endpoints.list_kinds("models"), **options)

    @paginated
    def list(
        self, *, limit: int | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[Model, None]:
        """All models by name, each with its aliases and newest version; at most `limit`."""
        return read_pages(
            self._transport, endpoints.list_models, options, page_size=100, limit=limit
        )

    @operation
    async def model(self, name: str, **options: Unpack[RequestOptions]) -> Model:
        """A model with its aliases, gates and newest version. Raises NotFound."""
        return await self._transport.send(endpoints.get_model(_name(name)), **options)

    @paginated
    def versions(
        self,
        name: str,
        *,
        deleted: bool = False,
        limit: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[ModelVersion, None]:
        """All versions of a model, newest first; with `deleted` those that can be restored."""
        page_request = partial(endpoints.list_model_versions, _name(name), deleted=deleted)
        return read_pages(self._transport, page_request, options, page_size=100, limit=limit)

    @paginated
    def history(
        self,
        name: str,
        *,
        alias: str | None = None,
        limit: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[AliasChange, None]:
        """Who gave which alias to which version, newest first, with refused promotions."""
        page_request = partial(endpoints.list_alias_changes, _name(name), alias=alias)
        return read_pages(self._transport, page_request, options, page_size=100, limit=limit)

    @operation
    async def get(self, reference: str, **options: Unpack[RequestOptions]) -> RegisteredVersion[M]:
        """A version such as "digits:3" or "digits@champion", or the newest one of "digits".

        Raises:
            NotFound: There is no such version.
            ValueError: The reference is malformed.
        """
        request = endpoints.get_model_version(ModelReference.parse(reference))
        return RegisteredVersion.bind(await self._transport.send(request, **options), self)

    @operation
    async def register(
        self,
        job: str | JobView,
        *,
        name: str,
        file: str | None = None,
        note: str | None = None,
        tags: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> RegisteredVersion[M]:
        """Register the model of a job that has succeeded as the next version of a model.

        Args:
            job: The job, or its id.
            name: The model, which is created if it does not exist.
            file: The model file of a job that has several, such as "model-best.keras".
            note: A text about the version.
            tags: Labels of the version.
            idempotency_key: Requests with the same key register once.
            **options: Of the request.

        Raises:
            NotFound: There is no such job.
            Conflict: The job has not succeeded, or its model is not stored.
        """
        body: dict[str, Any] = {"job_id": endpoints.job_id_of(job), "tags": dict(tags or {})}
        body |= {key: value for key, value in (("file", file), ("note", note)) if value is not None}
        request = endpoints.register_model(_name(name), body, idempotency_key)
        return RegisteredVersion.bind(await self._transport.send(request, **options), self)

    @operation
    async def set_alias(
        self,
        reference: str,
        alias: str,
        *,
        if_version: int | None = None,
        reason: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> AliasChange:
        """Give an alias to a version, without a check.

        Args:
            reference: The version, by its number: "digits:3".
            alias: Such as "champion".
            if_version: Only if this version has the alias; 0: only if none has it.
            reason: For the history.
            **options: Of the request.

        Raises:
            Conflict: Another version has the alias, or the alias has a gate.
        """
        version = await self._numbered(reference)
        body = _alias_body(version, if_version, reason)
        request = endpoints.set_model_alias(version.name, alias, body)
        return await self._transport.send(request, **options)

    @operation
    async def remove_alias(
        self,
        name: str,
        alias: str,
        *,
        if_version: int | None = None,
        reason: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> AliasChange:
        """Remove an alias. Raises NotFound, and Conflict as `set_alias` does."""
        request = endpoints.remove_model_alias(
            _name(name), alias, if_version=if_version, reason=reason
        )
        return await self._transport.send(request, **options)

    @operation
    async def promote(
        self,
        reference: str,
        alias: str,
        assertions: Sequence[str] = (),
        *,
        if_version: int | None = None,
        reason: str | None = None,
        raise_if_refused: bool = True,
        **options: Unpack[RequestOptions],
    ) -> AliasChange:
        """Give an alias to a version if assertions hold; the server checks them.

        Args:
            reference: The version, such as "digits:3"; "digits" for the newest one.
            alias: Such as "champion".
            assertions: Such as "val_accuracy >= base - 0.5 points", besides those of the gate;
                `base` is the version that has the alias.
            if_version: As of `set_alias`.
            reason: For the history.
            raise_if_refused: Whether a promotion that changes nothing is an error.
            **options: Of the request.

        Returns:
            The entry of the history, with the checks.

        Raises:
            PromotionRefused: An assertion does not hold, or is undecided.
            InvalidRequest: An assertion is malformed, or names a value that a version lacks.
            Conflict: Another version has the alias, or there is nothing to check.
        """
        version = await self._numbered(reference)
        body = _alias_body(version, if_version, reason) | {"assertions": list(assertions)}
        request = endpoints.promote_model(version.name, alias, body)
        change = await self._transport.send(request, **options)
        if raise_if_refused and not change.changed:
            raise PromotionRefused(_refusal(version, change), change=change)
        return change

    @operation
    async def update(
        self,
        name: str,
        *,
        note: str | Unchanged | None = UNCHANGED,
        tags: Mapping[str, str | None] | None = None,
        gates: Mapping[str, Sequence[str] | None] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Model:
        """Change the note, tags and gates of a model.

        Args:
            name: The model.
            note: A text; None removes it.
            tags: Tags to set; None as value removes one.
            gates: By alias, the assertions of every promotion; None as value removes the gate.
            **options: Of the request.
        """
        changes = _notes(note, tags)
        if gates is not None:
            changes["gates"] = {
                alias: None if texts is None else list(texts) for alias, texts in gates.items()
            }
        return await self._transport.send(endpoints.change_model(_name(name), changes), **options)

    @operation
    async def update_version(
        self,
        reference: str,
        *,
        note: str | Unchanged | None = UNCHANGED,
        tags: Mapping[str, str | None] | None = None,
        **options: Unpack[RequestOptions],
    ) -> ModelVersion:
        """Change the note and tags of a version, as `update` does of a model."""
        request = endpoints.change_model_version(
            ModelReference.parse(reference), _notes(note, tags)
        )
        return await self._transport.send(request, **options)

    @operation
    async def delete(self, reference: str, **options: Unpack[RequestOptions]) -> None:
        """Delete a version such as "digits:3", or every version of "digits".

        Raises:
            NotFound: There is no such version.
            Conflict: A version has an alias.
            ValueError: The reference is an alias, which may move meanwhile.
        """
        version = ModelReference.parse(reference)
        if version.alias is not None:
            raise ValueError(
                f"expected a model or a version by its number, as in digits:3; received "
                f"{reference!r}"
            )
        await self._transport.send(endpoints.delete_model(version), **options)

    @operation
    async def undelete(self, reference: str, **options: Unpack[RequestOptions]) -> ModelVersion:
        """Restore a deleted version such as "digits:3". Raises Conflict if its job is gone."""
        version = ModelReference.parse(reference)
        if version.number is None:
            raise ValueError(
                f"expected a version by its number, as in digits:3; received {reference!r}"
            )
        return await self._transport.send(endpoints.undelete_model_version(version), **options)

    @operation
    async def download(
        self,
        reference: str,
        *,
        to: str | PathLike[str] = ".",
        format: str = "keras",  # noqa: A002 - as the API calls it
        on_progress: OnProgress = no_progress,
    ) -> Path:
        """Download a version in a format, and verify its SHA-256.

        A complete file is not downloaded again; a partial one is resumed, in this call or a later
        one.

        Args:
            reference: The version, such as "digits@champion".
            to: The folder for the file.
            format: "keras", "safetensors", "saved_model" or "onnx".
            on_progress: Called with the name of the file, its bytes received so far, and all its
                bytes.

        Returns:
            The path of the file on this machine.

        Raises:
            NotFound: There is no such version, or it has no such file; the message says why.
            DigestMismatch: The bytes do not match the SHA-256.
            OSError: The file cannot be written.
        """
        request = endpoints.get_model_version(ModelReference.parse(reference))
        view = await self._transport.send(request)
        progress = current_bytes_callback(on_progress)
        return await _download(self, view, Path(to), format, progress)

    @operation
    async def card(self, reference: str) -> str:
        """The model card of a version, as Markdown. Raises NotFound."""
        return await _read_card(self, ModelReference.parse(reference))

    async def _numbered(self, reference: str) -> ModelReference:
        """The reference with the number of its version."""
        parsed = ModelReference.parse(reference)
        if parsed.number is not None:
            return parsed
        view = await self._transport.send(endpoints.get_model_version(parsed))
        return ModelReference(parsed.name, view.number)


async def _download(
    operations: Operations[Any],
    version: ModelVersion,
    folder: Path,
    file_format: str,
    on_progress: OnProgress,
) -> Path:
    entry = version.file(file_format)
    if entry is None or entry.file_name is None or entry.sha256 is None:
        formats = ", ".join(file.format for file in version.files if file.state == "available")
        reason = (entry.reason if entry else None) or f"It is available as {formats}."
        raise NotFound(f"{version.reference} has no file in the format {file_format!r}: {reason}")
    if not is_safe_file_name(entry.file_name):
        raise UnexpectedResponse(f"The server sent an unsafe file name: {entry.file_name!r}.")
    request = partial(endpoints.get_model_file, version.model, version.number, file_format)
    file = RemoteFile(
        f"{version.reference} {entry.file_name}",
        entry.size_bytes or 0,
        entry.sha256,
        lambda start: request(start=start),
    )
    target = folder / entry.file_name
    await download(operations._transport, file, target, on_progress)
    return target


async def _read_card(operations: Operations[Any], reference: ModelReference) -> str:
    async with operations._transport.open(endpoints.get_model_card(reference)) as response:
        content = b"".join([piece async for piece in response.chunks])
    return content.decode()


def _name(text: str) -> str:
    """The name of a model. Raises ValueError for a reference to a version."""
    reference = ModelReference.parse(text)
    if str(reference) != reference.name or "@" in text:
        raise ValueError(f"expected the name of a model without a version, received {text!r}")
    return reference.name


def _alias_body(
    version: ModelReference, if_version: int | None, reason: str | None
) -> dict[str, Any]:
    body = {"version": version.number, "if_version": if_version, "reason": reason}
    return {key: value for key, value in body.items() if value is not None}


def _notes(note: str | Unchanged | None, tags: Mapping[str, str | None] | None) -> dict[str, Any]:
    changes: dict[str, Any] = {} if note is UNCHANGED else {"note": note}
    if tags is not None:
        changes["tags"] = dict(tags)
    return changes


def _refusal(version: ModelReference, change: AliasChange) -> str:
    messages = [
        check.message for check in change.checks or () if check.outcome not in ("passed", "skipped")
    ]
    return f"{version} was not promoted to {change.alias} ({change.outcome}). {' '.join(messages)}"
