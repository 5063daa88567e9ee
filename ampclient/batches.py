"""Blocks of steps out of an answer in Arrow's IPC streaming format, each once it has come.

Source: https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format
"""

import struct
from collections.abc import AsyncGenerator, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ampclient.answers import unexpected
from ampclient.errors import ConnectionFailed

if TYPE_CHECKING:
    from ampclient.transport import Answer
    from ampcore.series import StepBlock

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
MARK: Final = 0xFFFFFFFF
"""What each message begins with."""
HEAD_BYTES: Final = 8
"""The mark, and how long the metadata is."""


async def blocks_in(answer: "Answer") -> AsyncGenerator["StepBlock", None]:
    """The steps of an answer; behind missing ones a new block begins.

    Raises ConnectionFailed where it breaks off, UnexpectedAnswer where it is no such answer.
    """
    import pyarrow as pa

    media_type = answer.headers.get("content-type")
    if media_type != MEDIA_TYPE:
        detail = f"Expected {MEDIA_TYPE}, received {media_type}."
        raise unexpected(detail, answer.status, answer.headers)
    batches = Batches()
    async for piece in answer.pieces:
        try:
            blocks = [block for batch in batches.feed(piece) for block in _runs(batch)]
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
            detail = f"Expected steps as an Arrow stream, received none ({error})."
            raise unexpected(detail, answer.status, answer.headers) from None
        for block in blocks:
            yield block
    if not batches.are_over:
        raise ConnectionFailed("The answer broke off before its end.")


class Batches:
    """The record batches of a stream that comes in pieces; a whole stream says where it ends."""

    def __init__(self) -> None:
        self.are_over = False
        self._rest = bytearray()
        self._schema: Any = None

    def feed(self, piece: bytes) -> Iterator[Any]:
        """The batches that are whole now. Raises ValueError or ArrowException for no stream."""
        import pyarrow as pa

        self._rest += piece
        while not self.are_over and (size := self._message_bytes()) <= len(self._rest):
            message = pa.py_buffer(bytes(self._rest[:size]))
            del self._rest[:size]
            if size == HEAD_BYTES:
                self.are_over = True
            elif self._schema is None:
                self._schema = pa.ipc.read_schema(message)
            else:
                yield pa.ipc.read_record_batch(message, self._schema)

    def _message_bytes(self) -> int:
        """How long the next message is, or at least is, while its beginning has not come."""
        if len(self._rest) < HEAD_BYTES:
            return HEAD_BYTES
        mark, metadata_bytes = struct.unpack_from("<II", self._rest)
        if mark != MARK or metadata_bytes >= 2**31:
            raise ValueError("expected a message")
        size = HEAD_BYTES + metadata_bytes
        if metadata_bytes == 0 or len(self._rest) < size:
            return int(size)
        return int(size) + _body_bytes(self._rest[HEAD_BYTES:size])


def _body_bytes(metadata: bytearray) -> int:
    """`bodyLength`, the fourth field of a Message (Message.fbs, a FlatBuffer)."""
    try:
        (table,) = struct.unpack_from("<I", metadata)
        (back,) = struct.unpack_from("<i", metadata, table)
        vtable = table - back
        (vtable_bytes,) = struct.unpack_from("<H", metadata, vtable)
        fourth = 4 + 2 * 3
        (place,) = (
            struct.unpack_from("<H", metadata, vtable + fourth) if fourth < vtable_bytes else (0,)
        )
        (size,) = struct.unpack_from("<q", metadata, table + place) if place else (0,)
    except struct.error as error:
        raise ValueError(f"expected a message: {error}") from None
    if size < 0:
        raise ValueError("expected a message with a body")
    return int(size)


def _runs(batch: Any) -> Iterator["StepBlock"]:
    """The consecutive steps of a pyarrow.RecordBatch, in arrays of their own."""
    import numpy as np

    from ampcore.series import StepBlock

    if not len(batch):
        return
    columns = {
        name: np.array(batch.column(name).to_numpy(zero_copy_only=False))
        for name in batch.schema.names
    }
    steps = columns.pop("step")
    cuts = np.flatnonzero(np.diff(steps) != 1) + 1
    for start, end in pairwise([0, *cuts.tolist(), len(steps)]):
        part = {name: column[start:end] for name, column in columns.items()}
        yield StepBlock(int(steps[start]), part)
