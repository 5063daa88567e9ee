"""Fetch the files of a job: what has come stays over a broken connection, and is checked."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PureWindowsPath
from typing import IO, Final

from ampclient import calls
from ampclient.errors import (
    ConnectionFailed,
    DigestMismatch,
    NotFound,
    StatusError,
    UnexpectedAnswer,
)
from ampclient.retry import POLLING_PATIENCE_S, Attempts
from ampclient.transport import Answer, Transport
from ampclient.views import Artifact

Report = Callable[[Artifact, int], object]
"""Called with a file and how many of its bytes are here."""

PARTIAL: Final = 206
RANGE_NOT_SATISFIABLE: Final = 416


def chosen(artifacts: Sequence[Artifact], path: str | None) -> list[Artifact]:
    """All files, or that of this path, or those in the folder of this path. Raises NotFound."""
    if path is None:
        return list(artifacts)
    wanted = path.strip("/")
    found = [a for a in artifacts if a.path == wanted or a.path.startswith(f"{wanted}/")]
    if not found:
        there = ", ".join(a.path for a in artifacts) or "none yet"
        raise NotFound(f"Expected one of the job's files ({there}); received {path!r}.")
    return found


def is_name(part: str) -> bool:
    """Whether it names a file in a folder on every system, and nothing else."""
    if part in ("", "..") or any(ord(c) < 32 or ord(c) == 127 for c in part):
        return False
    return PureWindowsPath(part).name == part


def place_of(artifact: Artifact, folder: Path) -> Path:
    """Where a file goes: its path below the folder, which no name can lead out of.

    Raises UnexpectedAnswer.
    """
    parts = artifact.path.split("/")
    if not all(map(is_name, parts)):
        raise UnexpectedAnswer(
            f"Expected a path below the job's folder, received {artifact.path!r}."
        )
    return folder.joinpath(*parts)


async def download(
    transport: Transport, job_id: str, artifact: Artifact, target: Path, report: Report
) -> None:
    """Bring one file to `target`, unless it is there already; other bytes there are replaced.

    Raises DigestMismatch for bytes that are not the promised ones, and OSError.
    """
    if not await transport.aside(_is_whole, target, artifact):
        target.parent.mkdir(parents=True, exist_ok=True)
        # The digest in its name: what is left of another version is never gone on with.
        part = target.with_name(f".{target.name}.{artifact.sha256[:16]}.part")
        part.touch()
        await _fill(transport, job_id, artifact, part, report)
        if not await transport.aside(_is_whole, part, artifact):
            part.unlink()
            raise DigestMismatch(
                f"Expected {artifact.size_bytes} bytes with the SHA-256 {artifact.sha256} for "
                f"{artifact.path}, received others. They were removed; try again."
            )
        part.replace(target)
    report(artifact, artifact.size_bytes)


async def _fill(
    transport: Transport, job_id: str, artifact: Artifact, part: Path, report: Report
) -> None:
    """Receive what `part` lacks, over as many connections as that takes."""
    attempts = Attempts(calls.get_artifact(job_id, artifact.path, start=0), POLLING_PATIENCE_S)
    while (start := part.stat().st_size) < artifact.size_bytes:
        request = calls.get_artifact(job_id, artifact.path, start=start)
        try:
            async with transport.open(request) as answer:
                # Behind what is there only where the server goes on from there.
                with part.open("ab" if answer.status == PARTIAL else "wb") as file:
                    await _receive(answer, attempts, file, artifact, report)
        except (ConnectionFailed, StatusError) as error:
            if error.status == RANGE_NOT_SATISFIABLE:
                return  # the server's file is a shorter one
            await transport.sleep(attempts.delay_s(error))
        else:
            return


async def _receive(
    answer: Answer, attempts: Attempts, file: IO[bytes], artifact: Artifact, report: Report
) -> None:
    """Write what comes."""
    async for piece in answer.pieces:
        file.write(piece)
        report(artifact, file.tell())
        attempts.begin_anew()
        if file.tell() > artifact.size_bytes:
            return  # not the promised file, and perhaps an endless one


def _is_whole(file: Path, artifact: Artifact) -> bool:
    if not file.is_file() or os.path.getsize(file) != artifact.size_bytes:
        return False
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == artifact.sha256
