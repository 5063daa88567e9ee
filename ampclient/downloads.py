"""Fetch the files of a job: what has come stays over a broken connection, and is checked."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PureWindowsPath
from typing import IO, Final

from ampclient import requests
from ampclient._transport import StreamedResponse, Transport
from ampclient.errors import (
    ConnectionFailed,
    DigestMismatch,
    NotFound,
    StatusError,
    UnexpectedResponse,
)
from ampclient.retry import POLLING_RETRY_TIMEOUT_S, RetryState
from ampcore.api.artifacts import Artifact

OnProgress = Callable[[Artifact, int], object]
"""Called with a file and how many of its bytes are here."""

HTTP_PARTIAL_CONTENT: Final = 206
RANGE_NOT_SATISFIABLE: Final = 416


def select_artifacts(artifacts: Sequence[Artifact], path: str | None) -> list[Artifact]:
    """All files, or that of this path, or those in the folder of this path. Raises NotFound."""
    if path is None:
        return list(artifacts)
    wanted = path.strip("/")
    found = [a for a in artifacts if a.path == wanted or a.path.startswith(f"{wanted}/")]
    if not found:
        there = ", ".join(a.path for a in artifacts) or "none yet"
        raise NotFound(f"Expected one of the job's files ({there}); received {path!r}.")
    return found


def is_safe_file_name(part: str) -> bool:
    """Whether it names a file in a folder on every system, and nothing else."""
    if part in ("", "..") or any(ord(c) < 32 or ord(c) == 127 for c in part):
        return False
    return PureWindowsPath(part).name == part


def target_path(artifact: Artifact, folder: Path) -> Path:
    """Where a file goes: its path below the folder, which no name can lead out of.

    Raises UnexpectedResponse.
    """
    parts = artifact.path.split("/")
    if not all(map(is_safe_file_name, parts)):
        raise UnexpectedResponse(f"The server sent an unsafe file path: {artifact.path!r}.")
    return folder.joinpath(*parts)


async def download(
    transport: Transport, job_id: str, artifact: Artifact, target: Path, on_progress: OnProgress
) -> None:
    """Bring one file to `target`, unless it is there already; other bytes there are replaced.

    Raises DigestMismatch for bytes that are not the promised ones, and OSError.
    """
    if not await transport.run_in_thread(_is_whole, target, artifact):
        target.parent.mkdir(parents=True, exist_ok=True)
        # The digest in its name: what is left of another version is never gone on with.
        part = target.with_name(f".{target.name}.{artifact.sha256[:16]}.part")
        part.touch()
        await _receive_rest(transport, job_id, artifact, part, on_progress)
        if not await transport.run_in_thread(_is_whole, part, artifact):
            part.unlink()
            raise DigestMismatch(
                f"{artifact.path} does not match its SHA-256 ({artifact.sha256}, "
                f"{artifact.size_bytes} bytes). The download was deleted; try again."
            )
        part.replace(target)
    on_progress(artifact, artifact.size_bytes)


async def _receive_rest(
    transport: Transport, job_id: str, artifact: Artifact, part: Path, on_progress: OnProgress
) -> None:
    """Receive what `part` lacks, over as many connections as that takes."""
    retries = RetryState(
        requests.get_artifact(job_id, artifact.path, start=0), POLLING_RETRY_TIMEOUT_S
    )
    while (start := part.stat().st_size) < artifact.size_bytes:
        request = requests.get_artifact(job_id, artifact.path, start=start)
        try:
            async with transport.open(request) as response:
                # Behind what is there only where the server goes on from there.
                with part.open("ab" if response.status == HTTP_PARTIAL_CONTENT else "wb") as file:
                    await _receive(response, retries, file, artifact, on_progress)
        except (ConnectionFailed, StatusError) as error:
            if error.status == RANGE_NOT_SATISFIABLE:
                return  # the server's file is a shorter one
            await transport.sleep(retries.next_delay_s(error))
        else:
            return


async def _receive(
    response: StreamedResponse,
    retries: RetryState,
    file: IO[bytes],
    artifact: Artifact,
    on_progress: OnProgress,
) -> None:
    """Write what comes."""
    async for chunk in response.chunks:
        file.write(chunk)
        on_progress(artifact, file.tell())
        retries.reset()
        if file.tell() > artifact.size_bytes:
            return  # not the promised file, and perhaps an endless one


def _is_whole(file: Path, artifact: Artifact) -> bool:
    if not file.is_file() or os.path.getsize(file) != artifact.size_bytes:
        return False
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == artifact.sha256
