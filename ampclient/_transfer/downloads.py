"""Downloads files: resumes after broken connections and verifies digests."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import IO, Final

from ampclient import _endpoints as endpoints
from ampclient._endpoints import Request
from ampclient._http.backend import StreamedResponse
from ampclient._http.retry import POLLING_RETRY_TIMEOUT_S, RetryState
from ampclient._http.transport import Transport
from ampclient._transfer.progress import OnProgress
from ampclient.errors import (
    ConnectionFailed,
    DigestMismatch,
    NotFound,
    StatusError,
    UnexpectedResponse,
)
from ampspec.api.job.artifacts import Artifact

HTTP_PARTIAL_CONTENT: Final = 206
RANGE_NOT_SATISFIABLE: Final = 416


@dataclass(frozen=True)
class RemoteFile:
    """A file on the server: its name in messages, and the request for its bytes from an offset."""

    name: str
    size_bytes: int
    sha256: str
    request: Callable[[int], Request]


def artifact_file(job_id: str, artifact: Artifact) -> RemoteFile:
    """The file of a job."""
    return RemoteFile(
        artifact.path,
        artifact.size_bytes,
        artifact.sha256,
        lambda start: endpoints.get_artifact(job_id, artifact.path, start=start),
    )


def select_artifacts(artifacts: Sequence[Artifact], path: str | None) -> list[Artifact]:
    """All files, the file with this path, or the files in this folder. Raises NotFound."""
    if path is None:
        return list(artifacts)
    prefix = path.strip("/")
    selected = [a for a in artifacts if a.path == prefix or a.path.startswith(f"{prefix}/")]
    if not selected:
        paths = ", ".join(a.path for a in artifacts) or "none yet"
        raise NotFound(f"Expected one of the job's files ({paths}); received {path!r}.")
    return selected


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
    transport: Transport, file: RemoteFile, target: Path, on_progress: OnProgress
) -> None:
    """Download one file to `target`, unless it is already there; other content is replaced.

    Raises DigestMismatch if the content has another SHA-256, and OSError.
    """
    if not await transport.run_in_thread(_is_whole, target, file):
        target.parent.mkdir(parents=True, exist_ok=True)
        # The digest in the name prevents resuming a partial download of another version.
        part = target.with_name(f".{target.name}.{file.sha256[:16]}.part")
        part.touch()
        await _receive_rest(transport, file, part, on_progress)
        if not await transport.run_in_thread(_is_whole, part, file):
            part.unlink()
            raise DigestMismatch(
                f"{file.name} does not match its SHA-256 ({file.sha256}, "
                f"{file.size_bytes} bytes). The download was deleted; try again."
            )
        part.replace(target)
    on_progress(file.name, file.size_bytes, file.size_bytes)


async def _receive_rest(
    transport: Transport, file: RemoteFile, part: Path, on_progress: OnProgress
) -> None:
    """Receive the rest of `part`, over as many connections as needed."""
    retries = transport.retries(file.request(0), POLLING_RETRY_TIMEOUT_S)
    while (start := part.stat().st_size) < file.size_bytes:
        try:
            async with transport.open(file.request(start)) as response:
                # Append only if the server honoured the range.
                with part.open("ab" if response.status == HTTP_PARTIAL_CONTENT else "wb") as target:
                    await _receive(response, retries, target, file, on_progress)
        except (ConnectionFailed, StatusError) as error:
            if error.status == RANGE_NOT_SATISFIABLE:
                return  # the server's file is shorter
            await transport.sleep(retries.next_delay_s(error))
        else:
            return


async def _receive(
    response: StreamedResponse,
    retries: RetryState,
    target: IO[bytes],
    file: RemoteFile,
    on_progress: OnProgress,
) -> None:
    """Write the chunks of the response."""
    async for chunk in response.chunks:
        target.write(chunk)
        on_progress(file.name, target.tell(), file.size_bytes)
        retries.reset()
        if target.tell() > file.size_bytes:
            return  # not the expected file, and perhaps endless


def _is_whole(path: Path, file: RemoteFile) -> bool:
    if not path.is_file() or os.path.getsize(path) != file.size_bytes:
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256
