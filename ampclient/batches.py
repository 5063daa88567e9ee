"""Blocks of steps out of an answer in Arrow's IPC streaming format, each once it has come.

Source: https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format
"""

from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from ampclient.answers import unexpected
from ampclient.errors import ConnectionFailed

if TYPE_CHECKING:
    import httpx

    from ampcore.series import StepBlock

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"


def blocks_in(response: "httpx.Response") -> Iterator["StepBlock"]:
    """The steps of an answer; behind missing ones a new block begins.

    Raises ConnectionFailed where it breaks off, UnexpectedAnswer where it is no such answer.
    """
    import pyarrow as pa

    media_type = response.headers.get("content-type")
    if media_type != MEDIA_TYPE:
        detail = f"Expected {MEDIA_TYPE}, received {media_type}."
        raise unexpected(detail, response.status_code, response.headers)
    pieces = response.iter_bytes()
    try:
        for batch in pa.ipc.open_stream(BufferedReader(_Body(pieces))):
            yield from _runs(batch)
    except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
        detail = f"Expected steps as an Arrow stream, received none ({error})."
        raise unexpected(detail, response.status_code, response.headers) from None
    for _ in pieces:
        pass  # a connection that has been read to the end serves the next request


class _Body(RawIOBase):
    """The bytes of an answer as a file; whoever asks for more than came was cut off.

    A whole stream says itself where it ends, so nobody asks for anything behind that.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                raise ConnectionFailed("The answer broke off before its end.")
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


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
