"""Receive a request body of any size into a file, in constant memory."""

import asyncio
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Request
from starlette.requests import ClientDisconnect

from infra.folder_store import write_all
from infra.storage import StorageFailed
from server.errors import LengthRequired, PayloadTooLarge, Unauthorized, Unavailable
from server.http.streaming.stream_limits import OpenStreams, StreamLimit, owner_of
from server.http.streaming.streams import AUTH_CHECK_S

WRITE_BYTES: Final = 2**20
"""Pieces are collected up to this size: each write costs a change of threads."""
WRITE_BACK_BYTES: Final = 16 * 2**20
"""The disk writes while the rest arrives: a file is stored only once all of it is on the disk."""
MAX_WRITERS: Final = 4
MAX_COMPLETIONS: Final = 2
MAX_THREADS: Final = 4
LEFTOVER_S: Final = 86_400.0
UPLOAD_LIMIT: Final = StreamLimit("uploads", total=100, per_token=10, per_address=30)


@dataclass(frozen=True)
class ReceivedBody:
    """A body in a local file, which the caller deletes."""

    file: Path
    size_bytes: int
    sha256: str
    is_whole: bool
    """False if the client disconnected, or the server stops, before the end."""

    def require_whole(self) -> None:
        """Delete the file and raise Unavailable unless all bytes have arrived."""
        if not self.is_whole:
            self.file.unlink(missing_ok=True)
            raise Unavailable("The upload ended before the end of the file; send it again.")


class BodyReceiver:
    """Writes request bodies into a folder; shared by all uploads of an application."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.completions = CapacityLimiter(MAX_COMPLETIONS)
        """Limits how many uploads are completed at the same time: that reads the whole file."""
        self.threads = CapacityLimiter(MAX_THREADS)
        """For the queries of uploads, which are in no group of requests."""
        self._writers = CapacityLimiter(MAX_WRITERS)
        self._open = OpenStreams(UPLOAD_LIMIT)

    async def receive(
        self,
        request: Request,
        max_bytes: int,
        *,
        allowed: Callable[[], Awaitable[bool]],
        is_stopping: Callable[[], bool],
    ) -> ReceivedBody:
        """Receive the body of a request.

        Args:
            request: its body has not been read yet.
            max_bytes: how long the body may be.
            allowed: whether the client is still authorized; called every AUTH_CHECK_S.
            is_stopping: whether the server stops; what has arrived by then is returned.

        Raises:
            TooManyOpen, PayloadTooLarge, Unauthorized, StorageFailed: the file is deleted.
        """
        check_declared_length(request, max_bytes)
        with self._open.one(owner_of(request)):
            path = self.folder / f"{secrets.token_hex(8)}.part"
            try:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                # Unbuffered: pieces are collected here.
                with path.open("xb", buffering=0) as opened:
                    file = _HashedFile(opened)
                    is_whole = await self._write_all(file, request, max_bytes, allowed, is_stopping)
            except BaseException as error:
                path.unlink(missing_ok=True)
                if isinstance(error, OSError):  # the disk is full
                    raise StorageFailed(f"an upload cannot be written: {error}") from error
                raise
        return ReceivedBody(path, file.size_bytes, file.sha256, is_whole)

    async def _write_all(
        self,
        file: "_HashedFile",
        request: Request,
        max_bytes: int,
        allowed: Callable[[], Awaitable[bool]],
        is_stopping: Callable[[], bool],
    ) -> bool:
        """Write the body; whether its end has arrived."""
        check_at = anyio.current_time() + AUTH_CHECK_S
        received, waiting = 0, _Collected()
        async with aclosing(_pieces(request)) as body, self._writing(file) as write:
            async for piece in body:
                if piece is None or is_stopping():
                    break
                received += len(piece)
                if received > max_bytes:
                    raise too_large(max_bytes)
                for full in waiting.add(piece):
                    await write(full)
                if anyio.current_time() >= check_at:
                    check_at = anyio.current_time() + AUTH_CHECK_S
                    if not await allowed():
                        raise Unauthorized("The token is no longer valid.", ["Bearer"])
            else:
                await write(waiting.take_buffer())
                return True
            await write(waiting.take_buffer())
            return False

    @asynccontextmanager
    async def _writing(
        self, file: "_HashedFile"
    ) -> AsyncIterator[Callable[[memoryview], Awaitable[None]]]:
        """A function that writes in another thread, and returns while the bytes are written.

        It waits for the bytes before them, so that at most two pieces are in memory.
        """
        pending: asyncio.Future[None] | None = None

        async def write(content: memoryview) -> None:
            nonlocal pending
            if pending is not None:
                await pending
            work = anyio.to_thread.run_sync(file.write, content, limiter=self._writers)
            pending = asyncio.ensure_future(work)

        try:
            yield write
        finally:
            if pending is not None:
                await pending


class _Collected:
    """Collects pieces in two buffers, which are used again: one is filled, one written.

    A new block of memory for each write would cost as much time as the write.
    """

    def __init__(self) -> None:
        self._buffers = [memoryview(bytearray(WRITE_BYTES)) for _ in range(2)]
        self._filled = 0

    def add(self, piece: bytes) -> Iterator[memoryview]:
        """Take a piece; yields each buffer that it fills, valid until the next but one is full."""
        remaining = memoryview(piece)
        while remaining:
            size = min(len(remaining), WRITE_BYTES - self._filled)
            self._buffers[0][self._filled : self._filled + size] = remaining[:size]
            self._filled, remaining = self._filled + size, remaining[size:]
            if self._filled == WRITE_BYTES:
                yield self.take_buffer()

    def take_buffer(self) -> memoryview:
        """What is collected; the next pieces go into the other buffer."""
        full = self._buffers[0][: self._filled]
        self._buffers.reverse()
        self._filled = 0
        return full


class _HashedFile:
    """A file that is written from its beginning, and its SHA-256."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest = file, hashlib.sha256()
        self.size_bytes = self._started_bytes = 0

    def write(self, content: memoryview) -> None:
        """Write and hash bytes."""
        self._digest.update(content)
        self.size_bytes += len(content)
        write_all(self._file, content)
        if self.size_bytes - self._started_bytes >= WRITE_BACK_BYTES:
            self._start_writing_back()

    def _start_writing_back(self) -> None:
        """Have the system write to the disk now what it would write when the file is synced.

        Linux starts to write changed pages that are not needed; it drops only unchanged ones.
        """
        begin, size = self._started_bytes, self.size_bytes - self._started_bytes
        os.posix_fadvise(self._file.fileno(), begin, size, os.POSIX_FADV_DONTNEED)
        self._started_bytes = self.size_bytes

    @property
    def sha256(self) -> str:
        """The SHA-256 of what has been written."""
        return self._digest.hexdigest()


def delete_leftovers(folder: Path) -> None:
    """Delete what a server that died has left in its folder for uploads, a day later."""
    for path in folder.glob("*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFTOVER_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_declared_length(request: Request, max_bytes: int) -> None:
    """Raise PayloadTooLarge if Content-Length is more than that."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise too_large(max_bytes)


def required_length(request: Request, max_bytes: int) -> int:
    """The Content-Length of a body that is sent in one request.

    Raises PayloadTooLarge if it is more than that, and LengthRequired without one.
    """
    check_declared_length(request, max_bytes)
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        raise LengthRequired("Expected a Content-Length header.")
    return int(length)


def too_large(max_bytes: int) -> PayloadTooLarge:
    """The error for a body, or a file, that is longer than allowed."""
    return PayloadTooLarge(f"Expected at most {max_bytes} bytes.")


async def _pieces(request: Request) -> AsyncGenerator[bytes | None, None]:
    """The pieces of the body; None where the client disconnected."""
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        yield None
