"""Frames: the messages from a trainer process to its supervisor, over a pipe.

A frame is the length of a JSON header, the length of a payload (both 4 bytes, big-endian), the
header, the payload. The payload of a `steps` frame is a block as plain arrays
(`ampspec.telemetry.steps.steps_frame`). The supervisor validates every frame
(`worker.trainer.frame_validator`).
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, BinaryIO, Final

_LENGTHS: Final = struct.Struct(">II")
MAX_FRAME_BYTES: Final = 64 * 2**20
MAX_HEADER_BYTES: Final = 8 * 2**20
"""Parsed JSON takes up to twenty times this memory."""


class FrameType(StrEnum):
    """The types of frames."""

    READY = "ready"  # TensorFlow is imported; the process waits for a job
    RUNNING = "running"  # the loop is about to run: total_steps, first_step, parameters, device
    ACTIVITY = "activity"  # activity: what the process does from now on
    STEPS = "steps"  # first_step, scale_health; payload: the block
    EVENT = "event"  # type, step, data
    SUCCEEDED = "succeeded"  # summary
    FAILED = "failed"  # reason, message
    STOPPED = "stopped"  # the job was stopped by SIGTERM


@dataclass(frozen=True)
class Frame:
    """One message: its type, a JSON header, and bytes."""

    type: FrameType
    header: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""
    size_bytes: int = field(default=0, compare=False)
    """Its size in the pipe; 0 if it was not read from a pipe."""


def write_frame(stream: BinaryIO, frame: Frame) -> None:
    """Write one frame and flush. Not safe to call from two threads at once."""
    # NaN is allowed here: both ends are Python; the HTTP API writes it as a string.
    header = json.dumps({"type": frame.type, **frame.header}).encode()
    stream.write(_LENGTHS.pack(len(header), len(frame.payload)) + header + frame.payload)
    stream.flush()


class FrameReader:
    """Cuts the bytes of a pipe, fed in pieces of any size, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with `data`. Raises ValueError on other bytes."""
        self._buffer += data
        while len(self._buffer) >= _LENGTHS.size:
            header_size, payload_size = _LENGTHS.unpack_from(self._buffer)
            end = _LENGTHS.size + header_size + payload_size
            if end > MAX_FRAME_BYTES or header_size > MAX_HEADER_BYTES:
                raise ValueError(
                    f"expected a frame of at most {MAX_FRAME_BYTES} bytes with a header of at "
                    f"most {MAX_HEADER_BYTES}, received {end} and {header_size}"
                )
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTHS.size : end])
            del self._buffer[:end]
            frame_type, header = _parse_header(body[:header_size])
            yield Frame(frame_type, header, body[header_size:], end)


def _parse_header(data: bytes) -> tuple[FrameType, dict[str, Any]]:
    """The type and the other fields. Raises ValueError on anything that is not a header."""
    try:
        header = json.loads(data)
    except RecursionError as error:
        raise ValueError("expected a header, received deeply nested JSON") from error
    if not isinstance(header, dict) or "type" not in header:
        raise ValueError("expected a header with a type, received other JSON")
    return FrameType(header.pop("type")), header
