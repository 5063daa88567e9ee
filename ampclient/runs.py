"""`client.runs`: track trainings that run elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Unpack
from uuid import uuid4

from ampclient import _endpoints as endpoints
from ampclient._http.operations import M, Sync, operation, run_sync
from ampclient._http.options import RequestOptions
from ampclient._job.job import Job, JobResource
from ampclient._job.wait import J
from ampspec.api.runs import RunStatus
from ampspec.old_names import old_attributes, one_class_for

if TYPE_CHECKING:
    from ampclient.imports.send import ImportedRun
    from ampclient.mirrors.mirror import Mirror
    from ampclient.mirrors.stored import MirroredJob
    from ampclient.tracking.run import TrackedRun
    from ampclient.tracking.sync import SyncedRun


class Runs(JobResource[M, J], Generic[M, J]):
    """The tracked runs of a server: `track`, and the requests that it sends."""

    @operation
    async def create(
        self,
        spec: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """Create a tracked run; `spec` has the fields of TrackedSpec. Returns a running job.

        Raises InvalidRequest, and QuotaExceeded when the project has too many tracked runs.
        """
        request = endpoints.create_run(spec, idempotency_key or str(uuid4()))
        return self._bind(await self._transport.send(request, **options))

    @operation
    async def upload(
        self,
        run_id: str,
        first_entry: int,
        entries: Sequence[Mapping[str, Any]],
        *,
        total_steps: int | None = None,
        **options: Unpack[RequestOptions],
    ) -> RunStatus:
        """Store entries, numbered from `first_entry` on; those that are stored already are skipped.

        Raises Conflict if the run has ended, or if entries before these are missing.
        """
        request = endpoints.upload_entries(run_id, first_entry, entries, total_steps)
        return await self._transport.send(request, **options)

    @operation
    async def finish(
        self,
        run_id: str,
        state: Literal["succeeded", "failed", "cancelled"],
        *,
        entries: int,
        message: str | None = None,
        summary: Mapping[str, Any] | None = None,
        **options: Unpack[RequestOptions],
    ) -> J:
        """End a run of which `entries` entries are stored. Raises Conflict if they are not."""
        end = {"state": state, "entries": entries, "message": message, "summary": summary or {}}
        return self._bind(await self._transport.send(endpoints.finish_run(run_id, end), **options))

    def track(
        self: "Runs[Sync, Job]",
        name: str = "run",
        *,
        labels: Mapping[str, str] | None = None,
        policy: str | None = None,
        model: str | None = None,
        config: Mapping[str, Any] | None = None,
        total_steps: int | None = None,
        folder: str | PathLike[str] | None = None,
        resume: bool | Literal["must"] = False,
        from_step: int | None = None,
        mirror: "Mirror | Sequence[Mirror]" = (),
        buffer_bytes: int | None = None,
        flush_timeout_s: float | None = None,
    ) -> "TrackedRun":
        """Create a run, and send its steps from a thread of this process.

            with client.runs.track("baseline", policy="mixed_float16") as run:
                model.fit(x, y, callbacks=[ampcore.TelemetryCallback(run)])

        With a folder everything is kept there until the server has it: the run begins also while
        the server cannot be reached, nothing is dropped, and what is left when the program ends is
        sent by `sync`, or by the next program with the same folder and `resume`.

        Args:
            name: The name of the run.
            labels: Its labels.
            policy: Its precision, for example `mixed_float16`.
            model: The name of its model.
            config: Other settings, for comparisons.
            total_steps: The number of rows that it will have.
            folder: Where the run is kept until the server has it; None: in memory alone.
            resume: Continue the run of the folder, unless it has none or that has succeeded;
                `"must"` raises an error then.
            from_step: With `resume`, the step at which the program goes on: that of its checkpoint.
                Steps from there on that the run has already are replaced by those of this program,
                and kept as those of an earlier attempt. None: at the first step that it logs.
            mirror: Also write the run to MLflow or to offline files of W&B, from a thread of its
                own: a `MlflowMirror` or `WandbMirror`, or several. Of a continued run it has the
                steps of this program. An error of a mirror ends the mirror, and not the run.
            buffer_bytes: Without a folder, how much is kept, compressed, while the server cannot be
                reached.
            flush_timeout_s: How long the end of the run waits for the server.

        Raises:
            RunFolderUnusable: The folder has another run, another program uses it, or it has no
                run that must be continued.
            AmpcoreError: The run could not be created. Later no error is raised.
            TypeError: The client is an AsyncClient.
            ValueError: `resume` without `folder`, `from_step` without `resume`, or `folder` with
                `buffer_bytes`; or a value that is not allowed.
        """
        self._check_mode("track")
        if folder is None and resume:
            raise ValueError("resume=True continues the run of a folder: give folder=…")
        if resume not in (True, False, "must"):
            raise ValueError(f"expected resume=True, False or 'must', received {resume!r}")
        if from_step is not None and not resume:
            raise ValueError("from_step=… is where a continued run goes on: give resume=True")
        _check_step(from_step)
        if folder is not None and buffer_bytes is not None:
            raise ValueError("expected folder=… or buffer_bytes=…, received both")
        from ampclient.tracking import run as tracking  # imports NumPy
        from ampclient.tracking.run_mirrors import RunMirrors
        from ampclient.tracking.start import start_run, start_run_in_folder

        spec: dict[str, Any] = {"name": name, "labels": dict(labels or {})}
        spec["config"] = dict(config or {})
        if policy is not None:
            spec["precision"] = {"policy": policy}
        if model is not None:
            spec["model"] = {"kind": model}
        timeout_s = tracking.FLUSH_TIMEOUT_S if flush_timeout_s is None else flush_timeout_s
        targets = mirror if isinstance(mirror, Sequence) else (mirror,)
        mirrors = RunMirrors(targets, spec) if targets else None
        if folder is None:
            run = start_run(
                self._transport,
                spec,
                mirrors=mirrors,
                buffer_bytes=tracking.BUFFER_BYTES if buffer_bytes is None else buffer_bytes,
                flush_timeout_s=timeout_s,
            )
        else:
            run = start_run_in_folder(
                self._transport,
                spec,
                Path(folder),
                resume=resume,
                from_step=from_step,
                mirrors=mirrors,
                flush_timeout_s=timeout_s,
            )
        if total_steps is not None:
            run.expect_steps(total_steps)
        return run

    def resume(
        self: "Runs[Sync, Job]",
        run_id: str,
        *,
        from_step: int | None = None,
        buffer_bytes: int | None = None,
        flush_timeout_s: float | None = None,
    ) -> "TrackedRun":
        """Continue a run that has failed or was cancelled, or whose program was killed.

        The new program sends the next rows of the same run: `next_step` of the result is the one
        after the last that is stored.

        Args:
            run_id: The id of the run.
            from_step: As of `track`.
            buffer_bytes: As of `track`.
            flush_timeout_s: As of `track`.

        Raises:
            Conflict: The run has succeeded, or is a job of a worker.
            AmpcoreError: The server cannot be reached, or refuses it.
            TypeError: The client is an AsyncClient.
            ValueError: `from_step` is negative.
        """
        self._check_mode("resume")
        _check_step(from_step)
        from ampclient.tracking import run as tracking  # imports NumPy
        from ampclient.tracking.start import start_run

        return start_run(
            self._transport,
            run_id,
            from_step=from_step,
            buffer_bytes=tracking.BUFFER_BYTES if buffer_bytes is None else buffer_bytes,
            flush_timeout_s=(
                tracking.FLUSH_TIMEOUT_S if flush_timeout_s is None else flush_timeout_s
            ),
        )

    def sync(self: "Runs[Sync, Job]", folder: str | PathLike[str]) -> "SyncedRun":
        """Send what the folder of a run has and the server lacks, and end the run.

        A run whose program was killed ends as failed; `track(…, resume=True)` continues it.

        Args:
            folder: As of `track`; no program may use it.

        Returns:
            What was sent.

        Raises:
            RunFolderUnusable: It has no run, or a program still uses it.
            AmpcoreError: The server cannot be reached, or refuses the run.
            TypeError: The client is an AsyncClient.
        """
        self._check_mode("sync")
        from ampclient.tracking.sync import sync_run  # imports NumPy

        return sync_run(self._transport, Path(folder))

    def mirror(self: "Runs[Sync, Job]", job_id: str, mirror: "Mirror") -> "MirroredJob":
        """Write a tracked run or a job to MLflow or to offline files of W&B, as it is stored.

        Settings become parameters, columns and evaluations metrics of their steps, labels tags.
        Doing it twice makes two runs there.

        Args:
            job_id: The id of the run or job; one that goes on is written up to now.
            mirror: A `MlflowMirror` or `WandbMirror` that has written nothing yet.

        Returns:
            What was written, and what not.

        Raises:
            AmpcoreError: The job cannot be read.
            MirrorFailed: The other tool has refused it.
            TypeError: The client is an AsyncClient.
        """
        self._check_mode("mirror")
        from ampclient.mirrors.stored import mirror_job

        job = self._bind(run_sync(self._transport.send(endpoints.get_job(job_id))))
        return mirror_job(job, mirror, f"{self._transport.connection.url}/#/jobs/{job_id}")

    def import_tensorboard(
        self: "Runs[Sync, Job]", folder: str | PathLike[str]
    ) -> "Iterator[ImportedRun]":
        """Make a tracked run of each folder with event files of TensorBoard, one after the other.

        Scalars become columns: `train/loss` and the like become `loss`, others keep their names.
        What is no scalar is counted in `left_out`.

        Args:
            folder: What `tensorboard --logdir` shows.

        Raises:
            FileNotFoundError: There is no event file.
            ModuleNotFoundError: The package tensorboard is not installed.
            ImportFailed: A run is not complete on the server.
            AmpcoreError: The server refuses a run.
        """
        self._check_mode("import_tensorboard")
        from ampclient.imports.send import send
        from ampclient.imports.tensorboard import tensorboard_runs

        for run in tensorboard_runs(Path(folder)):
            if (imported := send(self.track, run)) is not None:
                yield imported

    def import_mlflow(
        self: "Runs[Sync, Job]", url: str, experiment: str
    ) -> "Iterator[ImportedRun]":
        """Make a tracked run of each run of an experiment of MLflow, one after the other.

        Its metrics become columns as of `import_tensorboard`, its parameters the configuration,
        its tags labels.

        Args:
            url: The tracking server of MLflow.
            experiment: The name of the experiment.

        Raises:
            ImportFailed: MLflow does not answer or has no such experiment, or a run is not complete
                on the server.
            AmpcoreError: The server refuses a run.
        """
        self._check_mode("import_mlflow")
        from ampclient.imports.mlflow import mlflow_runs
        from ampclient.imports.send import send

        for run in mlflow_runs(url, experiment):
            if (imported := send(self.track, run)) is not None:
                yield imported

    def _check_mode(self, method: str) -> None:
        if self._mode is not Sync:
            raise TypeError(f"{method} sends steps from a thread: it needs the synchronous Client")


def _check_step(step: int | None) -> None:
    if step is not None and step < 0:
        raise ValueError(f"expected from_step of 0 or more, received {step}")


if not TYPE_CHECKING:
    __getattr__ = old_attributes(__name__, one_class_for("Runs"))
