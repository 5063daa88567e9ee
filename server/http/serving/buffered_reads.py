"""Receive into one buffer for all connections, instead of a new block of memory for each read.

uvloop reads up to 256,000 bytes at a time into a new `bytes` object. Blocks of this size come from
the system and go back to it (`server.http.serving.memory`), and the page faults took half of the
CPU time of an upload.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

READ_BYTES: Final = 120 * 1024
"""Below the 128 KiB from which on a block is returned to the system."""


class BufferedReads(asyncio.BufferedProtocol):
    """Passes what a connection receives, and its events, to another protocol.

    Args:
        protocol: The protocol of the connection.
        buffer: Shared by all connections of an event loop: the loop fills it and calls
            `buffer_updated` before it reads from another connection.
    """

    def __init__(self, protocol: asyncio.Protocol, buffer: memoryview) -> None:
        self._protocol, self._buffer = protocol, buffer
        # The loop calls these directly.
        self.connection_made = protocol.connection_made  # type: ignore[method-assign]
        self.connection_lost = protocol.connection_lost  # type: ignore[method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the loop writes the next bytes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Pass on the bytes."""
        self._protocol.data_received(bytes(self._buffer[:nbytes]))


def buffered(protocol_class: Callable[..., asyncio.Protocol]) -> Callable[..., BufferedReads]:
    """A factory of protocols that receive into one buffer."""
    buffer = memoryview(bytearray(READ_BYTES))

    def create(*arguments: Any, **options: Any) -> BufferedReads:
        return BufferedReads(protocol_class(*arguments, **options), buffer)

    return create
