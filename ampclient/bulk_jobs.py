"""Submit several jobs, and cancel or delete all jobs that match a filter."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Unpack
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, operation
from ampclient._http.options import RequestOptions
from ampclient._http.paging import TableList
from ampclient._job.filters import Labels, label_texts, moment_text, several
from ampclient._job.job import JobResource
from ampclient._job.wait import J
from ampclient._spec.build_spec import build_spec
from ampclient._spec.spec_input import Document, SpecSource
from ampspec.api.job.jobs import ChangedJobs
from ampspec.old_names import old_attributes

SPECS_PER_REQUEST: Final = 100
BYTES_PER_REQUEST: Final = 200_000


class BulkJobs(JobResource[M, J], Generic[M, J]):
    """What `client.jobs` does with many jobs at once."""

    @operation
    async def submit_many(
        self,
        specs: Iterable[SpecSource],
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> TableList[J]:
        """Queue several jobs, each given as to `submit`; returns them in the same order.

        A request has up to 100 specs, and queues all of its jobs or none. With a key of your own
        the call can be repeated, as that of `submit`, with the same specs. Raises InvalidSpec with
        the mistakes of all specs of a request (`/specs/3/model/kind`), and QuotaExceeded.
        """
        documents = []
        for spec in specs:
            document, _ = await build_spec(
                self._transport, spec, {}, code=None, weights=None, upload=True
            )
            documents.append(document)
        jobs: TableList[J] = TableList()
        for number, batch in enumerate(_batches(documents)):
            key = f"{idempotency_key}-{number}" if idempotency_key else str(uuid4())
            submitted = await self._transport.send(endpoints.submit_jobs(batch, key), **options)
            jobs += [self._bind(view) for view in submitted]
        return jobs

    @operation
    async def cancel_many(
        self,
        *,
        state: str | Iterable[str] | None = None,
        label: Labels | None = None,
        metric: str | Iterable[str] | None = None,
        q: str | None = None,
        policy: str | None = None,
        model: str | None = None,
        project: str | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
        explanations: bool = False,
        study: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> list[str]:
        """Cancel all jobs that match all given filters (see `list`); returns their ids.

        At least one filter is needed, and an empty one is a ValueError. Waiting jobs are cancelled
        at once, running ones once their processes have ended. A request cancels up to 1,000 jobs;
        this sends as many as are needed.
        """
        filters = _nonempty(
            state=state,
            label=label,
            metric=metric,
            q=q,
            policy=policy,
            model=model,
            project=project,
            created_after=created_after,
            created_before=created_before,
            study=study,
        )
        search = _search(filters, explanations=explanations)
        return await self._change(endpoints.cancel_jobs, search, options)

    @operation
    async def delete_many(
        self,
        *,
        state: str | Iterable[str] | None = None,
        label: Labels | None = None,
        metric: str | Iterable[str] | None = None,
        q: str | None = None,
        policy: str | None = None,
        model: str | None = None,
        project: str | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
        explanations: bool = False,
        study: str | None = None,
        permanent: bool = False,
        **options: Unpack[RequestOptions],
    ) -> list[str]:
        """Delete all ended jobs that match all given filters (see `list`); returns their ids.

        At least one filter is needed, and an empty one is a ValueError. Jobs that have
        not ended stay, and those that an unfinished job extends or explains. They can be restored
        for a day unless `permanent`.
        """
        filters = _nonempty(
            state=state,
            label=label,
            metric=metric,
            q=q,
            policy=policy,
            model=model,
            project=project,
            created_after=created_after,
            created_before=created_before,
            study=study,
        )
        search = _search(filters, explanations=explanations)
        delete = partial(endpoints.delete_jobs, permanent=permanent)
        return await self._change(delete, search, options)

    async def _change(
        self,
        change: Callable[[endpoints.JobSearch], endpoints.JsonRequest[ChangedJobs]],
        search: endpoints.JobSearch,
        options: RequestOptions,
    ) -> list[str]:
        ids: list[str] = []
        while True:
            changed = await self._transport.send(change(search), **options)
            ids += changed.ids
            if not changed.more:
                return ids


def _nonempty(**filters: Any) -> dict[str, Any]:
    """The filters that are not None. Raises ValueError for an empty one, which matches all."""
    values = {name: value for name, value in filters.items() if value is not None}
    iterables = {
        name: list(value)
        for name, value in values.items()
        if not isinstance(value, str | Mapping | datetime)
    }
    values |= iterables  # an iterator can be read once
    if empty := [name for name, value in values.items() if not value]:
        raise ValueError(f"expected a value for the filter {empty[0]}, received an empty one")
    return values


def _search(filters: Mapping[str, Any], *, explanations: bool) -> endpoints.JobSearch:
    return endpoints.JobSearch(
        states=several(filters.get("state")),
        labels=label_texts(filters.get("label")),
        metrics=several(filters.get("metric")),
        q=filters.get("q"),
        policy=filters.get("policy"),
        model=filters.get("model"),
        project=filters.get("project"),
        created_after=moment_text(filters.get("created_after")),
        created_before=moment_text(filters.get("created_before")),
        explanations=explanations,
        study=filters.get("study"),
    )


def _batches(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    """The specs of each request: as many as fit."""
    batch: list[Document] = []
    size = 0
    for document in documents:
        length = len(json.dumps(document))
        if batch and (len(batch) == SPECS_PER_REQUEST or size + length > BYTES_PER_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += length
    if batch:
        yield batch


if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, {"BaseBulkJobs": "BulkJobs"})
