"""Start a tracked run: create it or continue one, in memory or with a folder."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ampclient._http.transport import Transport
from ampclient.errors import ConnectionFailed, ServerError, TooManyRequests
from ampclient.tracking.file_outbox import FileOutbox
from ampclient.tracking.outbox import Outbox
from ampclient.tracking.run import TrackedRun
from ampclient.tracking.run_api import NewRun, RunApi
from ampclient.tracking.run_folder import Resume, RunFolder
from ampclient.tracking.run_mirrors import RunMirrors
from ampspec.api.runs import RunStatus

log = logging.getLogger(__name__)

TEMPORARY_ERRORS = (ConnectionFailed, ServerError, TooManyRequests)
"""The server cannot be reached now, or has too many runs."""


def start_run(
    transport: Transport,
    run: Mapping[str, Any] | str,
    *,
    from_step: int | None = None,
    mirrors: RunMirrors | None = None,
    buffer_bytes: int,
    flush_timeout_s: float,
) -> TrackedRun:
    """A run that is kept in memory until it is sent.

    Args:
        transport: Of the client.
        run: What it is created with, or the id of the run to continue.
        from_step: The next step; what is stored from there on is replaced. None: go on.
        mirrors: Also write the run to other tools.
        buffer_bytes: How much is kept, compressed, while the server cannot be reached.
        flush_timeout_s: How long the end of the run waits for the server.

    Raises:
        AmpcoreError: It could not be created or continued.
    """
    api = RunApi(transport, run if isinstance(run, str) else NewRun(run))
    status = api.connect(repeat=True)
    tracked = TrackedRun(
        api, status, Outbox(buffer_bytes), mirrors=mirrors, flush_timeout_s=flush_timeout_s
    )
    if from_step is not None:
        tracked.go_on_from(from_step)
    return tracked


def start_run_in_folder(
    transport: Transport,
    spec: Mapping[str, Any],
    path: Path,
    *,
    resume: Resume,
    from_step: int | None = None,
    mirrors: RunMirrors | None = None,
    flush_timeout_s: float,
) -> TrackedRun:
    """A run that is kept in a folder until it is sent; it starts also without the server.

    Args:
        transport: Of the client.
        spec: The fields of TrackedSpec.
        path: The folder.
        resume: Continue the run that it has, unless that has succeeded; `must`: see
            `RunFolder.begin`.
        from_step: The next step; what is stored from there on is replaced. None: go on.
        mirrors: Also write the run to other tools.
        flush_timeout_s: How long the end of the run waits for the server.

    Raises:
        RunFolderUnusable: See `RunFolder.begin`.
        AmpcoreError: The server has refused the run.
    """
    folder = RunFolder.begin(path, transport.connection.url, spec, resume=resume)
    outbox: FileOutbox | None = None
    try:
        outbox = FileOutbox(folder)
        _report_ignored(folder, spec)
        api = api_of(transport, folder)
        run = TrackedRun(
            api,
            _status(api, folder),
            outbox,
            folder=folder,
            mirrors=mirrors,
            flush_timeout_s=flush_timeout_s,
        )
    except BaseException:
        if outbox is not None:
            outbox.close()
            if folder.record.run_id is None and not len(outbox):
                folder.forget()
        folder.close()
        raise
    if folder.record.total_steps is not None:
        run.expect_steps(folder.record.total_steps)
    if from_step is not None:
        run.go_on_from(from_step)
    return run


def api_of(transport: Transport, folder: RunFolder) -> RunApi:
    """The requests about the run of a folder."""
    record = folder.record
    if record.run_id is not None:
        return RunApi(transport, record.run_id)
    new_run = NewRun(
        record.spec,
        record.idempotency_key,
        lambda run_id: folder.change(run_id=run_id, server=transport.connection.url),
    )
    return RunApi(transport, new_run)


def _status(api: RunApi, folder: RunFolder) -> RunStatus | None:
    try:
        return api.connect()
    except TEMPORARY_ERRORS as error:
        log.warning("the run is kept in %s until it can be sent: %s", folder.path, error)
        return None


def _report_ignored(folder: RunFolder, spec: Mapping[str, Any]) -> None:
    stored = folder.record.spec
    names = [name for name in sorted({*stored, *spec}) if stored.get(name) != spec.get(name)]
    if names:
        log.warning(
            "the run in %s is continued as it was created: other values of %s are ignored",
            folder.path,
            ", ".join(names),
        )
