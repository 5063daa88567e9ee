"""An fsspec file system that is slow, or stops: `slow:///folder`, below a local folder."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

PART_BYTES = 64 * 1024
FULL = -1
CONTROL = "AMPCORE_TEST_SLOW_STORE"
"""The environment variable with the path of a file: its text is the rate in bytes/s.

0: uploads hang; -1: they fail, since the store is full.
"""


class SlowFileSystem(LocalFileSystem):
    """Stores files with the rate in the control file, which is read for each part.

    `reports` says whether it reports its progress within a file, as most libraries do.
    """

    protocol = "slow"
    cachable = False
    reports = True
    ended = threading.Event()
    """Ends uploads that hang, when a test is over."""

    def put_file(self, path1: str, path2: str, callback: Any = None, **_: Any) -> None:
        """Copy a file, as slowly as the control file says."""
        target = Path(path2)
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(path1, "rb") as source, target.with_suffix(".part").open("wb") as copy:
            while part := source.read(PART_BYTES):
                self._wait(len(part))
                copy.write(part)
                if self.reports and callback is not None:
                    callback.relative_update(len(part))
        target.with_suffix(".part").rename(target)

    def _wait(self, size_bytes: int) -> None:
        while (rate := rate_now()) <= 0:
            if rate == FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self.ended.is_set():
                raise OSError("the test is over")
            time.sleep(0.01)
        time.sleep(size_bytes / rate)


def install(folder: Path) -> None:
    """Write a package into a folder of PYTHONPATH that announces the file system to fsspec."""
    package = folder / "slow_store-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-store\nVersion: 1\n")
    announced = f"[fsspec.specs]\nslow = {__name__}:SlowFileSystem\n"
    (package / "entry_points.txt").write_text(announced)


def rate_now() -> float:
    """The rate in the control file, in bytes/s."""
    return float(Path(os.environ[CONTROL]).read_text() or "0")


def set_rate(bytes_per_s: float) -> None:
    """Change the rate."""
    file = Path(os.environ[CONTROL])
    file.with_suffix(".new").write_text(str(bytes_per_s))
    file.with_suffix(".new").rename(file)
