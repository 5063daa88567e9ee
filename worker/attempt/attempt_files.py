"""The files of one attempt: downloads what its job needs, and moves it to the trainer."""

from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from infra.storage import Storage
from store.tables import Job
from worker.attempt.explained_step import explained_step
from worker.background_thread import run_in_background
from worker.context import WorkerContext
from worker.database_retry import Lease, RetryingDatabase
from worker.trainer.isolation import TrainerFolder
from worker.transfer.bundle_download import JobBundle, fetch_bundle, place_bundle
from worker.transfer.checkpoint_download import fetch_earlier_checkpoint, fetch_latest_checkpoint
from worker.transfer.dataset_download import JobDataset, fetch_dataset, place_dataset
from worker.transfer.object_download import Enqueue, data_url, fetch_object
from worker.transfer.weights_download import fetch_initial_weights

OUTPUT_DIR: Final = "output"
"""In an attempt's folder: the output folder of a trainer that is not isolated."""
FETCHED_DIR: Final = "fetched"
"""In an attempt's folder: the checkpoint downloaded from earlier attempts."""


@dataclass(frozen=True)
class Downloads:
    """The downloads of an attempt."""

    resume: bool
    """Whether there is a checkpoint to resume from."""
    init: str | None
    """The path of the initial weights in the trainer's output folder; None without any."""
    dataset: JobDataset | None
    bundle: JobBundle | None
    explain: dict[str, Any] | None = None
    """The step to explain; None for a job that trains."""

    def release(self) -> None:
        """Allow the deletion of the downloaded files from the cache."""
        for download in (self.dataset, self.bundle):
            if download is not None:
                download.cached.close()


class AttemptFiles:
    """Downloads and places the files of one attempt.

    Args:
        context: What the attempts of this worker share.
        database: The database, which is asked again after errors.
        job: The job as it was claimed.
        lease: The attempt's lease.
        folder: The attempt's folder; created by `download_in_background`.
        enqueue: Stores entries of the job, such as warnings.
        only_data: Download no checkpoint and no initial weights: another rank sends them.
    """

    def __init__(
        self,
        context: WorkerContext,
        database: RetryingDatabase,
        job: Job,
        lease: Lease,
        folder: Path,
        *,
        enqueue: Enqueue,
        only_data: bool = False,
    ) -> None:
        self._context, self._database, self._job, self._lease = context, database, job, lease
        self._folder, self._enqueue, self._only_data = folder, enqueue, only_data
        self.output = folder / OUTPUT_DIR
        """The output folder of the trainer."""

    def download_in_background(self) -> Future[Downloads]:
        """Download the checkpoint or the initial weights, the dataset and the bundle, if any."""
        download_dir = self._folder / FETCHED_DIR
        # Not in the thread: it must not create the folder after the caller has removed it.
        download_dir.mkdir(parents=True)
        return run_in_background(partial(self._download, download_dir))

    def _download(self, download_dir: Path) -> Downloads:
        storage, database, job = self._context.storage, self._database, self._job
        explain = None if self._only_data else explained_step(database, job)
        resume, init = self._fetch_weights(download_dir)
        dataset = self._fetch_data(storage)
        try:
            cache = self._context.download_cache
            bundle = fetch_bundle(cache, storage, database, job.project, job.spec)
        except BaseException:
            if dataset is not None:
                dataset.cached.close()
            raise
        return Downloads(resume, init, dataset, bundle, explain)

    def _fetch_weights(self, download_dir: Path) -> tuple[bool, str | None]:
        """Download a checkpoint, or else the initial weights: see `Downloads`."""
        if self._only_data:
            return False, None
        if self._fetch_checkpoint(download_dir):
            return True, None  # it has all weights: the source of the initial ones may be gone
        return False, fetch_initial_weights(
            self._context.storage, self._database, self._job, download_dir
        )

    def _fetch_checkpoint(self, download_dir: Path) -> bool:
        """Download the checkpoint that the attempt starts from, if any."""
        storage, job = self._context.storage, self._job
        if job.explains is not None and job.explain_step is not None:
            return fetch_earlier_checkpoint(
                storage,
                self._database,
                download_dir,
                self._enqueue,
                job_id=job.explains,
                step=job.explain_step,
            )
        return fetch_latest_checkpoint(
            storage,
            self._database,
            self._lease,
            download_dir,
            self._enqueue,
            extends=job.extends,
            trained_steps=job.step,
        )

    def _fetch_data(self, storage: Storage) -> JobDataset | None:
        job = self._job
        if (url := data_url(job.spec)) is not None:
            return fetch_object(
                url,
                job,
                cache=self._context.download_cache,
                prefixes=self._context.data_prefixes,
                database=self._database,
                enqueue=self._enqueue,
            )
        return fetch_dataset(
            self._context.download_cache, storage, self._database, job.project, job.spec
        )

    def place_checkpoints(self, trainer_folder: TrainerFolder | None) -> None:
        """Move downloaded checkpoints and weights into the trainer's output folder."""
        paths = list((self._folder / FETCHED_DIR).iterdir())
        if trainer_folder is None:
            self.output.mkdir()
            for path in paths:
                path.rename(self.output / path.name)
            return
        self.output = trainer_folder.path
        for path in paths:
            trainer_folder.move_in(path)

    def place_data(
        self, trainer_folder: TrainerFolder | None, downloaded: Downloads
    ) -> dict[str, Any]:
        """Where the trainer reads its dataset, by its name in the spec, and its custom code."""
        assignment: dict[str, Any] = {"datasets": {}}
        if (dataset := downloaded.dataset) is not None:
            path = place_dataset(dataset, trainer_folder, self._folder)
            assignment["datasets"] = {dataset.reference: str(path)}
        if downloaded.bundle is not None:
            path = place_bundle(downloaded.bundle, trainer_folder, self._folder)
            assignment["bundle"] = str(path)
        return assignment
