"""Download a file from the storage, and retry while the storage is unreachable."""

import logging
import threading
from pathlib import Path
from typing import Final

from infra.storage import FileDamaged, FileNotStored, Storage, StorageFailed

log = logging.getLogger(__name__)

RETRY_DELAYS_S: Final = (0.5, 2.0, 5.0)
"""Waits between tries."""


def fetch_with_retries(
    storage: Storage,
    source: tuple[str, str],
    file: Path,
    sha256: str,
    attempt_ended: threading.Event,
) -> None:
    """Download `source`, a folder of the storage and a path, to `file`, and check its SHA-256.

    Raises StorageFailed; FileDamaged and FileNotStored without another try.
    """
    folder, path = source
    for wait_s in RETRY_DELAYS_S:
        try:
            return storage.fetch(folder, path, file, sha256)
        except (FileDamaged, FileNotStored):
            raise
        except StorageFailed as error:
            log.warning("a download failed, retrying in %g s: %s", wait_s, error)
        attempt_ended.wait(wait_s)
    return storage.fetch(folder, path, file, sha256)
