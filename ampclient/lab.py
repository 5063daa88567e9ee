"""`client.lab`: studies, which ask a question of several jobs."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Final, Literal, Unpack
from uuid import uuid4

from ampclient import requests
from ampclient._request_options import RequestOptions
from ampclient._sync_async import Async, AsyncRaw, Sync, SyncRaw, operation, paginated
from ampclient._transport import Transport
from ampclient.errors import WaitTimeout
from ampclient.prepared_spec import prepared_spec
from ampclient.retry import POLLING_RETRY_TIMEOUT_S
from ampclient.spec_input import SpecSections, SpecSource
from ampclient.weights_upload import Weights
from ampspec.api.studies import Estimate, Study, StudyFields

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
        spec: SpecSource | None = None,
        *,
        seeds: int = 3,
        policies: Sequence[str] | None = None,
        steps: int | None = None,
        metric: str | None = None,
        margin: float | None = None,
        name: str | None = None,
        priority: int | None = None,
        code: str | PathLike[str] | None = None,
        weights: Weights | bool | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[SpecSections],
    ) -> Study:
        """Ask which policy is as accurate as float32, and how much faster it is.

        Float32 and each policy train with the same seeds. `wait` returns the study with its answer.

        Args:
            spec: A JobSpec, a mapping, or the path of a YAML or JSON file; or None, with its
                sections as keyword arguments. `model` may be a Keras model, as in `jobs.submit`.
            seeds: The number of seeds, at least 2.
            policies: By default the mixed policies that the workers' devices can run.
            steps: The steps of each job; by default as in the spec.
            metric: A metric of the evaluations; by default that of `train.best`, else
                `val_accuracy`, else `val_loss`.
            margin: A difference of at most this does not matter, in the unit of the metric.
            name: The name of the study; by default that of the spec.
            priority: Of the jobs, from 0 to 9; by default 3, below that of submitted jobs.
            code: The folder with the code of a `model: {kind: bundle}`.
            weights: Those that all jobs start from, by default those of a Keras model; False:
                random ones, other ones for each seed.
            idempotency_key: The same key and arguments return the same study.
            **options: Sections of the spec, and options of the request.

        Raises:
            InvalidSpec, InvalidRequest: The spec or the options are invalid.
        """
        given: dict[str, Any] = {"seeds": seeds, "policies": policies and list(policies)}
        given |= {"steps": steps, "metric": metric, "margin": margin}
        document, rest = await self._prepared(spec, options, code, weights)
        study = _study("precision", document, name, _known(given), priority)
        return await self._create(study, idempotency_key, rest)

    @operation
    async def capacity(
        self,
        spec: SpecSource | None = None,
        *,
        policies: Sequence[str] | None = None,
        steps: int = 20,
        max_batch: int | None = None,
        resolution: float | None = None,
        name: str | None = None,
        priority: int | None = None,
        code: str | PathLike[str] | None = None,
        weights: Weights | bool | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[SpecSections],
    ) -> Study:
        """Ask how large the batch may be under each policy, and when it stops to gain speed.

        Args:
            spec: A JobSpec, a mapping, or the path of a YAML or JSON file; or None, with its
                sections as keyword arguments. `model` may be a Keras model, as in `jobs.submit`.
            policies: By default float32 and the mixed policies that the devices can run.
            steps: The steps of each job.
            max_batch: No larger batch is tried.
            resolution: The search ends when the next batch that fails is at most this share larger.
            name: The name of the study; by default that of the spec.
            priority: Of the jobs, from 0 to 9; by default 3, below that of submitted jobs.
            code: The folder with the code of a `model: {kind: bundle}`.
            weights: Those that all jobs start from, by default those of a Keras model; False:
                random ones, other ones for each seed.
            idempotency_key: The same key and arguments return the same study.
            **options: Sections of the spec, and options of the request.

        Raises:
            InvalidSpec, InvalidRequest: The spec or the options are invalid.
        """
        given: dict[str, Any] = {"policies": policies and list(policies), "steps": steps}
        given |= {"max_batch": max_batch, "resolution": resolution}
        document, rest = await self._prepared(spec, options, code, weights)
        study = _study("capacity", document, name, _known(given), priority)
        return await self._create(study, idempotency_key, rest)

    @operation
    async def bisect(
        self,
        spec: SpecSource | None = None,
        *,
        policy: str = "mixed_float16",
        seeds: int = 3,
        steps: int | None = 200,
        metric: str | None = None,
        margin: float | None = None,
        skipped_share: float | None = None,
        name: str | None = None,
        priority: int | None = None,
        code: str | PathLike[str] | None = None,
        weights: Weights | bool | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[SpecSections],
    ) -> Study:
        """Ask which layers need float32 under a policy, and get the overrides.

        Args:
            spec: A JobSpec, a mapping, or the path of a YAML or JSON file; or None, with its
                sections as keyword arguments. `model` may be a Keras model, as in `jobs.submit`.
            policy: The policy that overflows, or is less accurate than float32.
            seeds: The seeds of float32, at least 2, for the noise band.
            steps: The steps of each job; None: as in the spec.
            metric: As in `precision`.
            margin: A difference of at most this does not matter, in the unit of the metric.
            skipped_share: A job that skips a larger share of its steps fails; by default 0.1.
            name: The name of the study; by default that of the spec.
            priority: Of the jobs, from 0 to 9; by default 3, below that of submitted jobs.
            code: The folder with the code of a `model: {kind: bundle}`.
            weights: Those that all jobs start from, by default those of a Keras model; False:
                random ones, other ones for each seed.
            idempotency_key: The same key and arguments return the same study.
            **options: Sections of the spec, and options of the request.

        Raises:
            InvalidSpec, InvalidRequest: The spec or the options are invalid.
        """
        given: dict[str, Any] = {"policy": policy, "seeds": seeds, "metric": metric}
        given |= {"margin": margin, "skipped_share": skipped_share}
        document, rest = await self._prepared(spec, options, code, weights)
        study = _study("bisect", document, name, {**_known(given), "steps": steps}, priority)
        return await self._create(study, idempotency_key, rest)

    @operation
    async def search(
        self,
        spec: SpecSource | None,
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
        priority: int | None = None,
        code: str | PathLike[str] | None = None,
        weights: Weights | bool | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[SpecSections],
    ) -> Study:
        """Ask which values of hyper-parameters give the best metric.

        Args:
            spec: A JobSpec, a mapping, or the path of a YAML or JSON file; or None, with its
                sections as keyword arguments. `model` may be a Keras model, as in `jobs.submit`.
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
            priority: Of the jobs, from 0 to 9; by default 3, below that of submitted jobs.
            code: The folder with the code of a `model: {kind: bundle}`.
            weights: Those that all jobs start from, by default those of a Keras model; False:
                random ones, other ones for each seed.
            idempotency_key: The same key and arguments return the same study.
            **options: Sections of the spec, and options of the request.

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
        document, rest = await self._prepared(spec, options, code, weights)
        study = _study("search", document, name, _known(given), priority)
        return await self._create(study, idempotency_key, rest)

    @operation
    async def run(
        self,
        kind: Kind,
        spec: SpecSource | None = None,
        study_options: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        priority: int | None = None,
        code: str | PathLike[str] | None = None,
        weights: Weights | bool | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[SpecSections],
    ) -> Study:
        """Create a study of any kind; `study_options` are those of the kind in the HTTP API.

        `priority` is that of its jobs, by default 3: below that of submitted jobs.
        """
        document, rest = await self._prepared(spec, options, code, weights)
        study = _study(kind, document, name, dict(study_options or {}), priority)
        return await self._create(study, idempotency_key, rest)

    @operation
    async def estimate(
        self,
        kind: Kind,
        spec: SpecSource | None = None,
        study_options: Mapping[str, Any] | None = None,
        *,
        code: str | PathLike[str] | None = None,
        weights: Weights | bool | None = None,
        **options: Unpack[SpecSections],
    ) -> Estimate:
        """The jobs that a study would queue, and how long they would train.

        Creates nothing; code and weights are hashed, and not uploaded.
        """
        document, rest = await self._prepared(spec, options, code, weights, upload=False)
        study = _study(kind, document, None, dict(study_options or {}))
        return await self._transport.send(requests.estimate_study(study), **rest)

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

    async def _prepared(
        self,
        spec: SpecSource | None,
        options: SpecSections,
        code: str | PathLike[str] | None,
        weights: Weights | bool | None,
        *,
        upload: bool = True,
    ) -> tuple[dict[str, Any], RequestOptions]:
        """The spec to send, with its code and weights uploaded, and the options of the request."""
        return await prepared_spec(
            self._transport, spec, options, code=code, weights=weights, upload=upload
        )

    async def _create(
        self, study: Mapping[str, Any], key: str | None, options: RequestOptions
    ) -> Study:
        request = requests.create_study(study, key or str(uuid4()))
        return await self._transport.send(request, **options)


def _study(
    kind: str,
    document: Mapping[str, Any],
    name: str | None,
    options: Mapping[str, Any],
    priority: int | None = None,
) -> dict[str, Any]:
    request = {"kind": kind, "spec": dict(document), "options": dict(options)}
    return request | _known({"name": name, "priority": priority})


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
