"""Frames of steps: a block as plain arrays, which are safe to read from an untrusted sender.

Arrow, the stored form, declares its decompressed size itself. So the trainer sends plain arrays,
and the worker checks and encodes them.
"""

from typing import Final

from ampspec.telemetry.frames import Frame, FrameType
from ampspec.telemetry.steps import array_codec
from ampspec.telemetry.steps.block import StepBlock

MAX_BLOCK_BYTES: Final = 16 * 2**20
"""The size of the columns of one block."""


def steps_frame(block: StepBlock, scale_health: str | None = None) -> Frame:
    """The frame of a block; `scale_health` is the health of the loss scale after it."""
    header = {"first_step": block.first_step, "scale_health": scale_health}
    columns = {name: block[name] for name in block.names}
    return Frame(FrameType.STEPS, header, array_codec.encode(columns))


def read_steps(frame: Frame) -> StepBlock:
    """The block in a frame from `steps_frame`, without checking its values."""
    return StepBlock(frame.header["first_step"], array_codec.decode(frame.payload))
