"""Send what a folder of a run has, and the server lacks: after the program has ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ampclient._http.transport import Transport
from ampclient.errors import Conflict, RunFolderUnusable
from ampclient.tracking.file_outbox import FileOutbox
from ampclient.tracking.run_api import RunApi
from ampclient.tracking.run_folder import RunFolder
from ampclient.tracking.sender import REFUSED_ERRORS
from ampclient.tracking.start import api_of
from ampspec.jobs.states import State

PROGRAM_ENDED: Final[Mapping[str, Any]] = {
    "state": "failed",
    "message": "The program ended without calling finish().",
    "summary": {},
}


class SyncedRun(NamedTuple):
    """What was sent of a run.

    Attributes:
        run_id: Its id.
        url: Its page in the dashboard.
        state: `succeeded`, `failed` or `cancelled`.
        sent: How many entries were sent now.
        refused: What the server did not accept, in words; empty if it has everything.
    """

    run_id: str
    url: str
    state: str
    sent: int
    refused: str


def sync_run(transport: Transport, path: Path) -> SyncedRun:
    """Send what the server lacks, and end the run as its program did.

    A run whose program was killed ends as failed; `track(…, resume=True)` continues it.

    Args:
        transport: Of the client; requests are repeated as it is set.
        path: The folder.

    Raises:
        RunFolderUnusable: It has no run, or a program still uses it.
        AmpcoreError: The server cannot be reached, or refuses the run.
    """
    with RunFolder.open(path) as folder:
        folder.check_server(transport.connection.url)
        api = api_of(transport, folder)
        if folder.record.ended is not None:
            return _synced(api, folder.record.ended, 0, "")
        outbox = FileOutbox(folder)
        try:
            return _send(api, folder, outbox)
        finally:
            outbox.close()


def _send(api: RunApi, folder: RunFolder, outbox: FileOutbox) -> SyncedRun:
    end = folder.end or PROGRAM_ENDED
    try:
        status = api.connect(repeat=True)
    except Conflict:
        # The response to its end was lost; it ends only when everything is stored.
        if api.state() is State.SUCCEEDED:
            folder.complete(State.SUCCEEDED)
            return _synced(api, State.SUCCEEDED, 0, "")
        raise
    outbox.align(status.entries)
    sent = 0
    while batch := outbox.take_batch():
        documents = [entry.document for entry in batch]
        try:
            uploaded = api.upload(status.entries, documents, folder.record.total_steps, repeat=True)
        except REFUSED_ERRORS:
            outbox.refuse_batch()
            continue
        outbox.confirm_batch()
        sent += uploaded.entries - status.entries
        status = uploaded
    api.finish({**end, "entries": status.entries})
    folder.complete(str(end["state"]), entries=status.entries, steps=outbox.steps)
    return _synced(api, str(end["state"]), sent, str(outbox.take_refused()))


def _synced(api: RunApi, state: str, sent: int, refused: str) -> SyncedRun:
    if api.run_id is None or api.url is None:
        raise RunFolderUnusable("the run was never created")
    return SyncedRun(api.run_id, api.url, str(state), sent, refused)
