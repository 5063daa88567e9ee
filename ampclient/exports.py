"""Bring the steps of a job into a file, in a form that the server writes."""

import errno
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Final
from uuid import uuid4

from ampclient import calls
from ampclient.answers import unexpected
from ampclient.downloads import is_name
from ampclient.errors import ConnectionFailed, StatusError
from ampclient.retry import POLLING_PATIENCE_S, Attempts
from ampclient.transport import Answer, Transport

Report = Callable[[int], object]
"""Called with how many bytes are here."""

TRIES: Final = 3
"""At a whole answer: it is made while it is sent, so one that breaks off begins from the start."""
FILE_NAME: Final = re.compile(r'filename="([^"]+)"')
EVENTS: Final = "tfevents"
"""TensorBoard reads the files of a folder whose names have this in them."""
ENDINGS: Final = {
    "arrow": b"\xff\xff\xff\xff\0\0\0\0",
    "csv": b"\n",
    "ndjson": b"\n",
    "parquet": b"PAR1",
}
"""Of whole files: a proxy that speaks HTTP/1.0 may hide that an answer broke off."""


async def export(
    transport: Transport,
    request: calls.Request,
    path: str | PathLike[str],
    form: str,
    report: Report,
) -> Path:
    """Bring the answer to `path`, or under the server's name into that folder.

    Raises OSError, StatusError and, where no answer comes whole, ConnectionFailed.
    """
    attempts = Attempts(request, POLLING_PATIENCE_S)
    tries = 0
    while True:
        try:
            async with transport.open(request) as answer:
                tries += 1
                target = _target(path, form, answer)
                await _receive(answer, attempts, target, form, report)
                return target
        except (ConnectionFailed, StatusError) as error:
            if tries == TRIES:
                raise
            await transport.sleep(attempts.delay_s(error))


async def pieces_of(transport: Transport, request: calls.Request) -> AsyncGenerator[bytes, None]:
    """The answer piece by piece; it is asked for again only while none of it has come."""
    attempts = Attempts(request, POLLING_PATIENCE_S)
    begun = False
    while True:
        try:
            async with transport.open(request) as answer:
                async for piece in answer.pieces:
                    begun = True
                    yield piece
                return
        except (ConnectionFailed, StatusError) as error:
            if begun:
                raise
            await transport.sleep(attempts.delay_s(error))


def _target(path: str | PathLike[str], form: str, answer: Answer) -> Path:
    """Where the file goes; never to the place of a device or a pipe. Raises OSError."""
    target = Path(path)
    if _is_folder(path, form):
        target /= _name_in(answer.headers, answer.status)
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Expected a file or a folder", str(target))
    return target


def _is_folder(path: str | PathLike[str], form: str) -> bool:
    """One that is there or is to be made; TensorBoard's files have no other place."""
    if form == "tensorboard" and EVENTS not in Path(path).name:
        return True
    return os.fspath(path).endswith(("/", os.sep)) or Path(path).is_dir()


def _name_in(headers: Mapping[str, str], status: int) -> str:
    """The server's name for the file, in the form that has ASCII alone. Raises UnexpectedAnswer."""
    disposition = headers.get("content-disposition", "")
    found = FILE_NAME.search(disposition)
    if found is None or not is_name(found[1]):
        raise unexpected(f"Expected a file's name, received {disposition!r}.", status, headers)
    return found[1]


async def _receive(
    answer: Answer, attempts: Attempts, target: Path, form: str, report: Report
) -> None:
    """Write the file beside its place and move it there once it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
    try:
        with part.open("xb") as file:
            async for piece in answer.pieces:
                file.write(piece)
                report(file.tell())
                attempts.begin_anew()
        if not _is_whole(part, form):
            raise ConnectionFailed("The answer broke off before its end.")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _is_whole(file: Path, form: str) -> bool:
    """Whether it ends as files of its form do, as far as that can be seen."""
    ending, size_bytes = ENDINGS.get(form, b""), file.stat().st_size
    if form == "ndjson" and size_bytes == 0:
        return True  # there are no steps
    with file.open("rb") as content:
        content.seek(max(0, size_bytes - len(ending)))
        return content.read() == ending
