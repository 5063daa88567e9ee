"""Reads blocks of steps from a response in Arrow's IPC streaming format, as they arrive.

Source: https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format
"""

import struct
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Any, Final

from ampclient._http.backend import StreamedResponse
from ampclient._http.responses import unexpected_response
from ampclient.errors import ConnectionFailed

if TYPE_CHECKING:
    from ampspec.telemetry import StepBlock

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
CONTINUATION_MARKER: Final = 0xFFFFFFFF
"""The first four bytes of each message."""
PREFIX_BYTES: Final = 8
"""The continuation marker and the length of the metadata."""


async def read_step_blocks(response: StreamedResponse) -> AsyncGenerator["StepBlock", None]:
    """The steps of a response, a block for each batch.

    Raises ConnectionFailed if the stream is cut off, UnexpectedResponse if it is not Arrow.
    """
    import pyarrow as pa

    media_type = response.headers.get("content-type")
    if media_type != MEDIA_TYPE:
        detail = f"Expected {MEDIA_TYPE}, received {media_type}."
        raise unexpected_response(detail, response.status, response.headers)
    parser = ArrowStreamParser()
    async for chunk in response.chunks:
        try:
            blocks = [_block_of(batch) for batch in parser.feed(chunk) if len(batch)]
        except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
            detail = f"Expected an Arrow stream of steps: {error}."
            raise unexpected_response(detail, response.status, response.headers) from None
        for block in blocks:
            yield block
    if not parser.is_complete:
        raise ConnectionFailed("The connection closed before the response was complete.")


class ArrowStreamParser:
    """Parses record batches from chunks of a stream; `is_complete` once its end marker is read."""

    def __init__(self) -> None:
        self.is_complete = False
        self._buffer = bytearray()
        self._schema: Any = None

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """The batches that are complete now. Raises ValueError or ArrowException if invalid."""
        import pyarrow as pa

        self._buffer += chunk
        while not self.is_complete and (size := self._message_bytes()) <= len(self._buffer):
            message = pa.py_buffer(bytes(self._buffer[:size]))
            del self._buffer[:size]
            if size == PREFIX_BYTES:
                self.is_complete = True
            elif self._schema is None:
                self._schema = pa.ipc.read_schema(message)
            else:
                yield pa.ipc.read_record_batch(message, self._schema)

    def _message_bytes(self) -> int:
        """The length of the next message; a lower bound while its metadata is incomplete."""
        if len(self._buffer) < PREFIX_BYTES:
            return PREFIX_BYTES
        mark, metadata_bytes = struct.unpack_from("<II", self._buffer)
        if mark != CONTINUATION_MARKER or metadata_bytes >= 2**31:
            raise ValueError("expected a message")
        size = PREFIX_BYTES + metadata_bytes
        if metadata_bytes == 0 or len(self._buffer) < size:
            return int(size)
        return int(size) + _body_bytes(self._buffer[PREFIX_BYTES:size])


def _body_bytes(metadata: bytearray) -> int:
    """`bodyLength`, the fourth field of a Message (Message.fbs, a FlatBuffer)."""
    try:
        (table,) = struct.unpack_from("<I", metadata)
        (back,) = struct.unpack_from("<i", metadata, table)
        vtable = table - back
        (vtable_bytes,) = struct.unpack_from("<H", metadata, vtable)
        fourth = 4 + 2 * 3
        (field_offset,) = (
            struct.unpack_from("<H", metadata, vtable + fourth) if fourth < vtable_bytes else (0,)
        )
        (size,) = struct.unpack_from("<q", metadata, table + field_offset) if field_offset else (0,)
    except struct.error as error:
        raise ValueError(f"expected a message: {error}") from None
    if size < 0:
        raise ValueError("expected a message with a body")
    return int(size)


def _block_of(batch: Any) -> "StepBlock":
    """The rows of a pyarrow.RecordBatch as a block with its own arrays."""
    import numpy as np

    from ampspec.telemetry import StepBlock
    from ampspec.telemetry.steps.arrow_arrays import to_numpy

    columns = {name: np.array(to_numpy(batch.column(name))) for name in batch.schema.names}
    steps = columns.pop("step")
    return StepBlock(int(steps[0]), columns, steps)
