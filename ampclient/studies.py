"""`client.studies`: ask a question of several jobs."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack, cast
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.deprecation import renamed
from ampclient._http.operations import M, Operations, operation, paginated
from ampclient._http.options import RequestOptions
from ampclient._http.pages import read_pages
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S
from ampclient._spec.build_spec import build_spec
from ampclient._spec.spec_input import SpecOptions, SpecSections, SpecSource
from ampclient.errors import StudyFailed, WaitTimeout
from ampclient.study_options import (
    BisectArguments,
    CapacityArguments,
    PrecisionArguments,
    SearchArguments,
    Space,
    StudyArguments,
    StudyKind,
    sent_options,
)
from ampspec.api.studies import Estimate, Study, StudyFields
from ampspec.old_names import old_attributes, one_class_for

POLL_S: Final = 1.0
UNFINISHED: Final = ("running", "stopping")
SECTIONS: Final = {*SpecSections.__annotations__, "timeout"}
"""With the options of the request; `timeout` is an old name."""
SHARED: Final = {*StudyArguments.__annotations__, "timeout"}


class Studies(Operations[M]):
    """The studies of a server.

    `spec` is a JobSpec, a mapping, or the path of a YAML or JSON file; its sections may be given as
    keyword arguments, too, and `model` may be a Keras model, as in `client.jobs.submit`. The other
    keyword arguments are those of every study (`name`, `priority`, `code`, `weights`,
    `idempotency_key`) and the options of the kind, as `ampclient.study_options` lists them and
    docs/reference/http.md describes them. InvalidSpec and InvalidRequest say what is wrong.
    """

    @operation
    async def precision(
        self, spec: SpecSource | None = None, **options: Unpack[PrecisionArguments]
    ) -> Study:
        """Ask which policy is as accurate as float32, and how much faster it is.

        Float32 and each policy train with the same seeds. `wait` returns the study with its answer.
        """
        return await self._create("precision", spec, options)

    @operation
    async def capacity(
        self, spec: SpecSource | None = None, **options: Unpack[CapacityArguments]
    ) -> Study:
        """Ask how large the batch may be under each policy, and beyond which it gets no faster.

        Some jobs are expected to run out of memory; that is how the limit is found.
        """
        return await self._create("capacity", spec, options)

    @operation
    async def bisect(
        self, spec: SpecSource | None = None, **options: Unpack[BisectArguments]
    ) -> Study:
        """Ask which layers need float32 under a policy, and get the overrides."""
        return await self._create("bisect", spec, options)

    @operation
    async def search(
        self,
        spec: SpecSource | None = None,
        space: Space | None = None,
        **options: Unpack[SearchArguments],
    ) -> Study:
        """Ask which values of hyper-parameters give the best metric.

        Args:
            spec: See `Studies`.
            space: By dotted path into the spec: a list of values, or a range such as
                `{"log_uniform": [1e-4, 0.1]}`. Other ranges: `uniform`, `int_uniform`,
                `log_int_uniform`; with the method `grid` they need `points`.
            **options: See `Studies`.
        """
        parameters = {
            path: values if isinstance(values, Mapping) else {"choice": [*values]}
            for path, values in (space or {}).items()
        }
        return await self._create("search", spec, options, {"space": parameters})

    @operation
    async def run(
        self,
        kind: StudyKind,
        spec: SpecSource | None = None,
        study_options: Mapping[str, Any] | None = None,
        **options: Unpack[StudyArguments],
    ) -> Study:
        """Create a study of any kind; `study_options` are those of the kind in the HTTP API."""
        return await self._create(kind, spec, options, study_options)

    @operation
    async def estimate(
        self,
        kind: StudyKind,
        spec: SpecSource | None = None,
        study_options: Mapping[str, Any] | None = None,
        **options: Unpack[StudyArguments],
    ) -> Estimate:
        """The jobs that a study would queue, and how long they would train.

        Creates nothing; code and weights are hashed, and not uploaded.
        """
        study, request_options = await self._study(
            kind, spec, options, study_options or {}, upload=False
        )
        return await self._transport.send(endpoints.estimate_study(study), **request_options)

    @operation
    async def get(self, study: str | Study, **options: Unpack[RequestOptions]) -> Study:
        """One study with its jobs, and its answer once it has succeeded. Raises NotFound."""
        return await self._transport.send(endpoints.get_study(_id(study)), **options)

    @paginated
    def list(
        self, *, limit: int | None = None, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[StudyFields, None]:
        """The studies, newest first; at most `limit`."""
        return read_pages(
            self._transport, endpoints.list_studies, options, page_size=50, limit=limit
        )

    @operation
    async def cancel(self, study: str | Study, **options: Unpack[RequestOptions]) -> Study:
        """Cancel a study and its jobs; `wait` returns once it has ended. Raises Conflict."""
        return await self._transport.send(endpoints.cancel_study(_id(study)), **options)

    @operation
    async def delete(self, study: str | Study, **options: Unpack[RequestOptions]) -> None:
        """Delete a study that has ended, with its answer; its jobs stay. Raises Conflict."""
        await self._transport.send(endpoints.delete_study(_id(study)), **options)

    @operation
    @renamed(timeout="timeout_s", progress="on_progress")
    async def wait(
        self,
        study: str | Study,
        timeout_s: float | None = None,
        *,
        on_progress: Callable[[Study], object] | None = None,
        raise_on_failure: bool = False,
        poll_s: float = POLL_S,
    ) -> Study:
        """Wait until a study has succeeded, failed or been cancelled.

        Args:
            study: The study, or its id.
            timeout_s: After so long WaitTimeout is raised; the study goes on. None: no limit.
            on_progress: Called with each view of the study.
            raise_on_failure: Whether any end other than success raises StudyFailed.
            poll_s: The interval between two requests.

        Raises:
            WaitTimeout: `timeout_s` has passed.
            StudyFailed: The study has no answer, and `raise_on_failure` is set.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            request = endpoints.get_study(_id(study))
            view = await self._transport.send(request, retry_timeout_s=POLLING_RETRY_TIMEOUT_S)
            if on_progress is not None:
                on_progress(view)
            if view.state not in UNFINISHED:
                if raise_on_failure and view.state != "succeeded":
                    why = f": {view.message}" if view.message else "."
                    raise StudyFailed(f"Study {view.id} is {view.state}{why}", study=view)
                return view
            remaining_s = poll_s if deadline_s is None else deadline_s - time.monotonic()
            if remaining_s <= 0:
                raise WaitTimeout(f"Timed out waiting: study {view.id} is {view.state}.")
            await self._transport.sleep(min(poll_s, remaining_s))

    async def _create(
        self,
        kind: StudyKind,
        spec: SpecSource | None,
        arguments: Mapping[str, Any],
        study_options: Mapping[str, Any] | None = None,
    ) -> Study:
        key = arguments.get("idempotency_key") or str(uuid4())
        study, options = await self._study(kind, spec, arguments, study_options or {}, upload=True)
        return await self._transport.send(endpoints.create_study(study, key), **options)

    async def _study(
        self,
        kind: StudyKind,
        spec: SpecSource | None,
        arguments: Mapping[str, Any],
        study_options: Mapping[str, Any],
        *,
        upload: bool,
    ) -> tuple[dict[str, Any], RequestOptions]:
        """The body of the request, with code and weights uploaded, and the request's options."""
        sections = {name: arguments[name] for name in arguments if name in SECTIONS}
        kind_options = {name: arguments[name] for name in arguments if name not in SHARED}
        document, request_options = await build_spec(
            self._transport,
            spec,
            cast(SpecOptions, sections),
            code=arguments.get("code"),
            weights=arguments.get("weights"),
            upload=upload,
        )
        study: dict[str, Any] = {"kind": kind, "spec": document}
        study["options"] = {**study_options, **sent_options(kind, kind_options)}
        study |= {
            name: arguments[name]
            for name in ("name", "priority")
            if arguments.get(name) is not None
        }
        return study, request_options


def _id(study: str | Study) -> str:
    return study if isinstance(study, str) else study.id


if not TYPE_CHECKING:
    __getattr__ = old_attributes(
        __name__,
        {"Kind": "StudyKind", "Lab": "Studies", **dict.fromkeys(one_class_for("Lab"), "Studies")},
    )
