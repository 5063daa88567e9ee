"""Provide the code of a job: download its bundle into the cache, and extract it for its trainer."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ampspec.jobs import Reason
from ampspec.references.stored_files import FileKind, digest_of
from infra.job_failure import JobFailure
from infra.storage import FileNotStored, Storage
from store.files import project_files
from store.files.project_files import STORAGE_FOLDER, FileKey
from worker.database_retry import RetryingDatabase
from worker.trainer.isolation import TrainerFolder
from worker.transfer.download_cache import CachedFile, DownloadCache, content_name
from worker.transfer.storage_retry import fetch_with_retries

BUNDLE_DIR: Final = "bundle"
"""In the folder of a trainer, or of an attempt whose trainer is not isolated."""
PROGRAM: Final = (sys.executable, "-I", "-m", "ampcore.user_code", "extract")
TIMEOUT_S: Final = 120.0


class BundleMissing(JobFailure):
    """The job's code is gone or cannot be extracted; another attempt would not have it either."""

    reason = Reason.INVALID_SPEC


@dataclass(frozen=True)
class JobBundle:
    """The archive with a job's code, in the cache."""

    cached: CachedFile


def fetch_bundle(
    cache: DownloadCache,
    storage: Storage,
    database: RetryingDatabase,
    project: str,
    spec: Mapping[str, Any],
) -> JobBundle | None:
    """Download the bundle that a spec names, unless the cache has it; None if it names none.

    Raises BundleMissing, StorageFailed, OSError, CacheWaitAbandoned and WriteAbandoned.
    """
    if spec["model"]["kind"] != "bundle":
        return None
    reference = spec["model"]["bundle"]
    key = FileKey(project, FileKind.BUNDLE, digest_of(reference))
    row = database.write(lambda session: project_files.find(session, key))
    if row is None:
        raise BundleMissing(f"The project has no bundle {reference}.")

    def fetch(file: Path) -> None:
        source = (STORAGE_FOLDER, row.path)
        fetch_with_retries(storage, source, file, row.sha256, database.attempt_ended)

    try:
        wait = database.attempt_ended.wait
        return JobBundle(cache.acquire(content_name(row.sha256), row.size_bytes, fetch, wait))
    except FileNotStored as error:
        raise BundleMissing(f"The storage has no file for the bundle {reference}.") from error


def place_bundle(bundle: JobBundle, trainer: TrainerFolder | None, folder: Path) -> Path:
    """Extract a bundle; returns the folder that the job's trainer imports from.

    A separate process extracts it, so that the worker never parses an uploaded file.

    Args:
        bundle: in the cache.
        trainer: the trainer's folder; None if it is not isolated.
        folder: the attempt's folder, for a trainer that is not isolated.

    Raises:
        BundleMissing: it cannot be extracted.
        OSError: the folder cannot be created.
    """
    target = (trainer.path if trainer is not None else folder) / BUNDLE_DIR
    target.mkdir()
    target.chmod(0o755)  # for the trainer's user, whatever the umask is
    try:
        done = subprocess.run(
            [*PROGRAM, str(bundle.cached.path), str(target)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            cwd="/",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BundleMissing(f"The bundle was not extracted within {TIMEOUT_S:g} s.") from None
    if done.returncode != 0:
        output = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
        raise BundleMissing(f"The bundle cannot be extracted: {output[-500:]}")
    return target
