"""Downloads the files of a job: resumes after broken connections and verifies digests."""

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
"""Called with a file and the number of its bytes received so far."""

HTTP_PARTIAL_CONTENT: Final = 206
RANGE_NOT_SATISFIABLE: Final = 416


def select_artifacts(artifacts: Sequence[Artifact], path: str | None) -> list[Artifact]:
    """All files, the file with this path, or the files in this folder. Raises NotFound."""
    if path is None:
        return list(artifacts)
    wanted = path.strip("/")
    found = [a for a in artifacts if a.path == wanted or a.path.startswith(f"{wanted}/")]
    if not found:
        there = ", ".join(a.path for a in artifacts) or "none yet"
        raise NotFound(f"Expected one of the job's files ({there}); received {path!r}.")
    return found


def is_safe_file_name(part: str) -> bool:
    """Whether the name is a plain file name on every operating system."""
    if part in ("", "..") or any(ord(c) < 32 or ord(c) == 127 for c in part):
        return False
    return PureWindowsPath(part).name == part


def target_path(artifact: Artifact, folder: Path) -> Path:
    """The path of a file below `folder`; the file's name cannot lead out of it.

    Raises UnexpectedResponse.
    """
    parts = artifact.path.split("/")
    if not all(map(is_safe_file_name, parts)):
        raise UnexpectedResponse(f"The server sent an unsafe file path: {artifact.path!r}.")
    return folder.joinpath(*parts)


async def download(
    transport: Transport, job_id: str, artifact: Artifact, target: Path, on_progress: OnProgress
) -> None:
    """Download one file to `target`, unless it is already there; other content is replaced.

    Raises DigestMismatch if the content has another SHA-256, and OSError.
    """
    if not await transport.run_in_thread(_is_whole, target, artifact):
        target.parent.mkdir(parents=True, exist_ok=True)
        # The digest in the name prevents resuming a partial download of another version.
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
    """Receive the rest of `part`, over as many connections as needed."""
    retries = RetryState(
        requests.get_artifact(job_id, artifact.path, start=0), POLLING_RETRY_TIMEOUT_S
    )
    while (start := part.stat().st_size) < artifact.size_bytes:
        request = requests.get_artifact(job_id, artifact.path, start=start)
        try:
            async with transport.open(request) as response:
                # Append only if the server honoured the range.
                with part.open("ab" if response.status == HTTP_PARTIAL_CONTENT else "wb") as file:
                    await _receive(response, retries, file, artifact, on_progress)
        except (ConnectionFailed, StatusError) as error:
            if error.status == RANGE_NOT_SATISFIABLE:
                return  # the server's file is shorter
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
    """Write the chunks of the response."""
    async for chunk in response.chunks:
        file.write(chunk)
        on_progress(artifact, file.tell())
        retries.reset()
        if file.tell() > artifact.size_bytes:
            return  # not the expected file, and perhaps endless


def _is_whole(file: Path, artifact: Artifact) -> bool:
    if not file.is_file() or os.path.getsize(file) != artifact.size_bytes:
        return False
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == artifact.sha256
