"""`client.jobs`: submit, validate, find and wait for jobs."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from os import PathLike
from typing import TYPE_CHECKING, Generic, Unpack
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.deprecation import renamed
from ampclient._http.operations import M, operation, paginated
from ampclient._http.options import RequestOptions
from ampclient._http.pages import read_pages
from ampclient._http.paging import TableList
from ampclient._job.actions import JobActions
from ampclient._job.filters import Labels, label_texts, moment_text, several
from ampclient._job.job import progress_options
from ampclient._job.view import JobView
from ampclient._job.wait import POLL_S, J, wait_until
from ampclient._spec.build_spec import build_spec
from ampclient._spec.spec_input import SpecOptions, SpecSource
from ampclient._transfer.weights import Weights
from ampclient.bulk_jobs import BulkJobs
from ampspec.api.job.validation import Validation
from ampspec.old_names import old_attributes, one_class_for


class Jobs(BulkJobs[M, J], JobActions[M, J], Generic[M, J]):
    """The jobs of a server."""

    @operation
    async def submit(
        self,
        spec: SpecSource | None = None,
        *,
        code: str | PathLike[str] | None = None,
        weights: Weights | bool | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[SpecOptions],
    ) -> J:
        """Queue a job: a JobSpec, a mapping, or the path of a YAML or JSON file.

        Sections may be given as keyword arguments, too: `submit(model=…, data={"kind": "digits"})`.
        As `model`, a functional or sequential Keras model is converted into a list of layers. A
        softmax at its end is left out, since the loss takes logits. The conversion needs Keras and
        TensorFlow on this machine.

        `weights` are uploaded, unless the project has them, and become `init.weights`: a
        safetensors file, or arrays by name, as in `{"conv2d/kernel": array}`. Without them, the
        job starts from the weights of a Keras model, or from those that `init` in the spec names;
        with `weights=False` it draws random weights.

        `code` is a folder with the Python modules of a `model: {kind: bundle}`. It is uploaded,
        unless the project has it, and its SHA-256 becomes `model.bundle`. This needs a token with
        the scope "jobs:run-code". Raises ValueError for a folder with links, or that is too large.

        The request is retried with the same key if the response is lost, so one call queues one
        job. With a key of your own, the call itself can be repeated: the same key and spec return
        the same job. Raises InvalidSpec with all mistakes at once, QuotaExceeded when the project's
        queue is full, and OSError for an unreadable file.
        """
        document, request_options = await build_spec(
            self._transport, spec, options, code=code, weights=weights, upload=True
        )
        request = endpoints.submit_job(document, idempotency_key or str(uuid4()))
        return self._bind(await self._transport.send(request, **request_options))

    @operation
    async def validate(
        self,
        spec: SpecSource | None = None,
        *,
        code: str | PathLike[str] | None = None,
        weights: Weights | bool | None = None,
        **options: Unpack[SpecOptions],
    ) -> Validation:
        """Validate a spec on the server, without queuing a job; all defaults are filled in.

        It takes what `submit` takes; `code` and `weights` are hashed, and not uploaded.

        The result estimates the job's parameters, memory and FLOPs, and lists what may go wrong on
        the workers that are online. Raises InvalidSpec.
        """
        document, request_options = await build_spec(
            self._transport, spec, options, code=code, weights=weights, upload=False
        )
        return await self._transport.send(endpoints.validate_job(document), **request_options)

    @operation
    async def get(self, job_id: str, **options: Unpack[RequestOptions]) -> J:
        """One job. Raises NotFound."""
        return self._bind(await self._transport.send(endpoints.get_job(job_id), **options))

    @paginated
    def list(
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
        fold_studies: bool = False,
        trash: bool = False,
        sort: str | None = None,
        limit: int | None = None,
        fields: str | Iterable[str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncGenerator[J, None]:
        """The jobs that match all given filters, newest first.

        `state` is one state or several. `label` is "team=vision", "team" (any value), several of
        them, or a mapping. `metric` is a condition on the last evaluation, "val_accuracy>=0.9", or
        several. `q` is a part of the name or the start of the id. `sort` is created_at, updated_at,
        name, priority or a metric such as val_loss, with a leading "-" for descending order; jobs
        without the metric come last. `project` is for admins, who see all projects. `explanations`
        adds the jobs that explain a step of another job. `study` is the id of a study: its jobs.
        With `fold_studies`, the first job of each study that matches stands for the others: its
        `study` has their number and states. With `trash` only deleted jobs that can be restored.

        `fields` adds what lists leave out: "spec". Without it, a Job fetches its `spec` when it is
        first read, and an AsyncJob raises SpecNotLoaded.

        Lazy: the iterator requests each page when it is needed. `list(client.jobs.list())` returns
        all jobs; a notebook shows the first ones as a table. Each job is returned once, and no
        job that matches during the whole iteration is left out, even if it changes meanwhile.
        """
        search = endpoints.JobSearch(
            states=several(state),
            labels=label_texts(label),
            metrics=several(metric),
            q=q,
            policy=policy,
            model=model,
            project=project,
            created_after=moment_text(created_after),
            created_before=moment_text(created_before),
            explanations=explanations,
            study=study,
            fold_studies=fold_studies,
            in_trash=trash,
            sort=sort,
            fields=several(fields),
        )
        views = read_pages(
            self._transport,
            partial(endpoints.list_jobs, search),
            options,
            page_size=100,
            limit=limit,
            key=attrgetter("id"),
        )
        return self._bind_all(views)

    @operation
    @renamed(timeout="timeout_s")
    async def wait(
        self,
        jobs: Sequence[J | str],
        timeout_s: float | None = None,
        *,
        progress: bool = False,
        on_progress: Callable[[J], object] | None = None,
        raise_on_failure: bool = False,
        poll_s: float = POLL_S,
    ) -> TableList[J]:
        """Wait until all jobs (or their ids) have ended; see `Job.wait`.

        Returns:
            The jobs, in the same order.

        Raises:
            TypeError: `jobs` is a single id.
        """
        if isinstance(jobs, str):
            raise TypeError(
                "jobs: expected a list of jobs or of their ids; for one job call "
                f"client.jobs.get(id).wait(). Received: {jobs!r}"
            )
        progress, on_progress = progress_options(progress, on_progress)
        return await wait_until(
            [
                self._bind(await self._transport.send(endpoints.get_job(job)))
                if isinstance(job, str)
                else job
                for job in jobs
            ],
            timeout_s=timeout_s,
            progress=progress,
            on_progress=on_progress,
            raise_on_failure=raise_on_failure,
            poll_s=poll_s,
        )

    async def _bind_all(self, views: AsyncGenerator[JobView, None]) -> AsyncGenerator[J, None]:
        async for view in views:
            yield self._bind(view)


if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, one_class_for("Jobs"))
