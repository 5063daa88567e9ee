"""Says once, in the terminal of `ampserver up`, that custom code is off, why, and what mends it."""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from store import workers
from store.database import Database

log = logging.getLogger(__name__)

POLL_S: Final = 0.5
SETTING: Final = "AMPCORE_BUNDLE_SANDBOX"
REMEDY: Final = (
    "To turn it on, install bubblewrap (on Debian: apt install bubblewrap) and start the server "
    "again; docs/guides/operating.md describes the other sandboxes."
)
GUIDE: Final = "docs/guides/operating.md says what sandboxes need."
REMEDY_FOR_SETTING: Final = "To turn it on, remove that setting and start the server again."


class SandboxNotice:
    """A thread that waits until the worker has reported its sandbox, and writes the notice.

    Args:
        database: Where the worker registers.
        worker_pid: The process of the worker now. A killed server leaves the row of its own worker,
            which counts as online for a while.
        write: Called with the notice; not called if the worker has a sandbox.
    """

    def __init__(
        self,
        database: Database,
        worker_pid: Callable[[], int | None],
        write: Callable[[str], object],
    ) -> None:
        self._database, self._worker_pid, self._write = database, worker_pid, write
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-notice", daemon=True)

    def start(self) -> None:
        """Start to wait."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, also if the worker has not reported anything."""
        self._stop.set()
        self._thread.join()

    @property
    def is_waiting(self) -> bool:
        """Whether the worker has not reported yet."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            if (sandbox := self._reported_sandbox()) is not None:
                if sandbox.get("kind") is None:
                    self._write(notice(sandbox.get("missing") or ()))
                return

    def _reported_sandbox(self) -> dict[str, Any] | None:
        try:
            with self._database.read() as session:
                rows = workers.listing(session)
        except SQLAlchemyError as error:
            log.warning("cannot read what the worker reports: %s", error)
            return None
        for worker, state in rows:
            is_ours = state == workers.ONLINE and worker.pid == self._worker_pid()
            if is_ours and isinstance(worker.hardware, dict):
                sandbox = worker.hardware.get("sandbox")
                return sandbox if isinstance(sandbox, dict) else {}
        return None


def notice(missing: Any) -> str:
    """The sentences for a worker without a sandbox.

    Args:
        missing: Why there is none: a sentence for each kind of sandbox.
    """
    reasons = " ".join(missing)
    if SETTING in reasons:
        remedy = REMEDY_FOR_SETTING
    else:
        remedy = REMEDY if not reasons or "bwrap is not installed" in reasons else GUIDE
    return " ".join(["Custom code is off: jobs that bring their code will wait.", *missing, remedy])
