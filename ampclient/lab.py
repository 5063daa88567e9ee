"""`client.lab`: studies, which ask a question of several jobs."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Unpack
from uuid import uuid4

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import Async, AsyncRaw, Sync, SyncRaw, operation, paginated
from ampclient._transport import Transport
from ampclient.errors import WaitTimeout
from ampclient.retry import POLLING_RETRY_TIMEOUT_S
from ampclient.spec_input import SpecSource, spec_document
from ampcore.api.studies import Estimate, Study, StudyFields

Kind = Literal["precision", "capacity", "bisect", "search"]
POLL_S: Final = 1.0
UNFINISHED: Final = ("running", "stopping")


class BaseLab:
    """The studies of a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @operation
    async def precision(
        self,
        spec: SpecSource,
        *,
        seeds: int = 3,
        policies: Sequence[str] | None = None,
        steps: int | None = None,
        metric: str | None = None,
        margin: float | None = None,
        name: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Study:
        """Ask which policy is as accurate as float32, and how much faster it is.

        Float32 and each policy train with the same seeds. `wait` returns the study with its answer.

        Args:
            spec: A JobSpec, a mapping, or the path of a YAML or JSON file.
            seeds: The number of seeds, at least 2.
            policies: By default the mixed policies that the workers' devices can run.
            steps: The steps of each job; by default as in the spec.
            metric: A metric of the evaluations; by default that of `train.best`, else
                `val_accuracy`, else `val_loss`.
            margin: A difference of at most this does not matter, in the unit of the metric.
            name: The name of the study; by default that of the spec.
            idempotency_key: The same key and arguments return the same study.
            **options: Of the request.

        Raises:
            InvalidSpec, InvalidRequest: The spec or the options are invalid.
        """
        given: dict[str, Any] = {"seeds": seeds, "policies": policies and list(policies)}
        given |= {"steps": steps, "metric": metric, "margin": margin}
        study = _study("precision", spec, name, _known(given))
        return await self._create(study, idempotency_key, options)

    @operation
    async def capacity(
        self,
        spec: SpecSource,
        *,
        policies: Sequence[str] | None = None,
        steps: int = 20,
        max_batch: int | None = None,
        resolution: float | None = None,
        name: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Study:
        """Ask how large the batch may be under each policy, and when it stops to gain speed.

        Args:
            spec: A JobSpec, a mapping, or the path of a YAML or JSON file.
            policies: By default float32 and the mixed policies that the devices can run.
            steps: The steps of each job.
            max_batch: No larger batch is tried.
            resolution: The search ends when the next batch that fails is at most this share larger.
            name: The name of the study; by default that of the spec.
            idempotency_key: The same key and arguments return the same study.
            **options: Of the request.

        Raises:
            InvalidSpec, InvalidRequest: The spec or the options are invalid.
        """
        given: dict[str, Any] = {"policies": policies and list(policies), "steps": steps}
        given |= {"max_batch": max_batch, "resolution": resolution}
        study = _study("capacity", spec, name, _known(given))
        return await self._create(study, idempotency_key, options)

    @operation
    async def bisect(
        self,
        spec: SpecSource,
        *,
        policy: str = "mixed_float16",
        seeds: int = 3,
        steps: int | None = 200,
        metric: str | None = None,
        margin: float | None = None,
        skipped_share: float | None = None,
        name: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Study:
        """Ask which layers need float32 under a policy, and get the overrides.

        Args:
            spec: A JobSpec, a mapping, or the path of a YAML or JSON file.
            policy: The policy that overflows, or is less accurate than float32.
            seeds: The seeds of float32, at least 2, for the noise band.
            steps: The steps of each job; None: as in the spec.
            metric: As in `precision`.
            margin: A difference of at most this does not matter, in the unit of the metric.
            skipped_share: A job that skips a larger share of its steps fails; by default 0.1.
            name: The name of the study; by default that of the spec.
            idempotency_key: The same key and arguments return the same study.
            **options: Of the request.

        Raises:
            InvalidSpec, InvalidRequest: The spec or the options are invalid.
        """
        given: dict[str, Any] = {"policy": policy, "seeds": seeds, "metric": metric}
        given |= {"margin": margin, "skipped_share": skipped_share}
        study = _study("bisect", spec, name, {**_known(given), "steps": steps})
        return await self._create(study, idempotency_key, options)

    @operation
    async def search(
        self,
        spec: SpecSource,
        space: Mapping[str, Mapping[str, Any] | Sequence[Any]],
        *,
        method: Literal["grid", "random", "tpe"] = "tpe",
        runs: int | None = None,
        asha: Mapping[str, int] | None = None,
        parallel: int | None = None,
        seed: int = 0,
        steps: int | None = None,
        metric: str | None = None,
        direction: Literal["min", "max"] | None = None,
        name: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Study:
        """Ask which values of hyper-parameters give the best metric.

        Args:
            spec: A JobSpec, a mapping, or the path of a YAML or JSON file.
            space: By dotted path into the spec: a list of values, or a range such as
                `{"log_uniform": [1e-4, 0.1]}`. Other ranges: `uniform`, `int_uniform`,
                `log_int_uniform`; with the method `grid` they need `points`.
            method: Every combination, independent draws, or draws near the best runs (TPE).
            runs: The combinations to try; by default 20, or the whole grid.
            asha: `{"min_steps": 100, "reduction_factor": 3}` stops runs early: after 100 steps,
                300, 900, … only the best third trains on. By default all train to their end.
            parallel: With `tpe` or `asha`: the most jobs that wait or run at once, by default 4.
            seed: Of the draws.
            steps: The steps of a whole run; by default as in the spec.
            metric: As in `precision`.
            direction: Whether lower or higher values of the metric are better.
            name: The name of the study; by default that of the spec.
            idempotency_key: The same key and arguments return the same study.
            **options: Of the request.

        Raises:
            InvalidSpec, InvalidRequest: The spec, the space or the options are invalid.
        """
        parameters = {
            path: one if isinstance(one, Mapping) else {"choice": [*one]}
            for path, one in space.items()
        }
        given: dict[str, Any] = {"space": parameters, "method": method, "runs": runs, "seed": seed}
        given |= {"asha": asha and dict(asha), "parallel": parallel, "steps": steps}
        given |= {"metric": metric, "direction": direction}
        study = _study("search", spec, name, _known(given))
        return await self._create(study, idempotency_key, options)

    @operation
    async def run(
        self,
        kind: Kind,
        spec: SpecSource,
        study_options: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Study:
        """Create a study of any kind; `study_options` are those of the kind in the HTTP API."""
        study = _study(kind, spec, name, dict(study_options or {}))
        return await self._create(study, idempotency_key, options)

    @operation
    async def estimate(
        self,
        kind: Kind,
        spec: SpecSource,
        study_options: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Estimate:
        """The jobs that a study would queue, and how long they would train; creates nothing."""
        study = _study(kind, spec, None, dict(study_options or {}))
        return await self._transport.send(requests.estimate_study(study), **options)

    @operation
    async def get(self, study: str | Study, **options: Unpack[RequestOptions]) -> Study:
        """One study with its jobs, and its answer once it has succeeded. Raises NotFound."""
        return await self._transport.send(requests.get_study(_id(study)), **options)

    @paginated
    async def list(self, **options: Unpack[RequestOptions]) -> AsyncGenerator[StudyFields, None]:
        """The studies, newest first; each page is requested when it is needed."""
        cursor = None
        while True:
            request = requests.list_studies(limit=requests.STUDIES_PER_PAGE, cursor=cursor)
            page = await self._transport.send(request, **options)
            for study in page.items:
                yield study
            cursor = page.next_cursor
            if cursor is None:
                return

    @operation
    async def cancel(self, study: str | Study, **options: Unpack[RequestOptions]) -> Study:
        """Cancel a study and its jobs; `wait` returns once it has ended. Raises Conflict."""
        return await self._transport.send(requests.cancel_study(_id(study)), **options)

    @operation
    async def delete(self, study: str | Study, **options: Unpack[RequestOptions]) -> None:
        """Delete a study that has ended, with its answer; its jobs stay. Raises Conflict."""
        await self._transport.send(requests.delete_study(_id(study)), **options)

    @operation
    async def wait(
        self,
        study: str | Study,
        timeout: float | None = None,
        *,
        progress: Callable[[Study], object] | None = None,
        poll_s: float = POLL_S,
    ) -> Study:
        """Wait until a study has succeeded, failed or been cancelled.

        `progress` is called with each view of it. Raises WaitTimeout after `timeout` seconds; the
        study goes on.
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while True:
            request = requests.get_study(_id(study))
            found = await self._transport.send(request, retry_timeout_s=POLLING_RETRY_TIMEOUT_S)
            if progress is not None:
                progress(found)
            if found.state not in UNFINISHED:
                return found
            left_s = poll_s if deadline_s is None else deadline_s - time.monotonic()
            if left_s <= 0:
                raise WaitTimeout(f"Timed out waiting: study {found.id} is {found.state}.")
            await self._transport.sleep(min(poll_s, left_s))

    async def _create(
        self, study: Mapping[str, Any], key: str | None, options: RequestOptions
    ) -> Study:
        request = requests.create_study(study, key or str(uuid4()))
        return await self._transport.send(request, **options)


def _study(
    kind: str, spec: SpecSource, name: str | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    named = {} if name is None else {"name": name}
    return {"kind": kind, "spec": spec_document(spec), "options": dict(options), **named}


def _known(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _id(study: str | Study) -> str:
    return study if isinstance(study, str) else study.id


class Lab(Sync, BaseLab):
    """The studies of a server."""


class AsyncLab(Async, BaseLab):
    """The studies of a server."""


class RawLab(SyncRaw, BaseLab):
    """The same operations, each with its HTTP response."""


class AsyncRawLab(AsyncRaw, BaseLab):
    """The same operations for asyncio, each with its HTTP response."""
