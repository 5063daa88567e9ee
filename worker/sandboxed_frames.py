"""Checks the telemetry of a sandboxed trainer, whose process also runs code of a user.

Servers decode stored blocks as Arrow, whose buffers announce their own decompressed size, and trust
their sums. So a sandboxed trainer sends plain arrays; the worker checks them, and encodes the block
and computes its sums itself. This imports pyarrow, but only in a worker that runs such a job.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np

from ampcore.spec.tracked import COLUMN_NAME
from ampcore.telemetry import COLUMNS, EventType, StepBlock, array_codec
from ampcore.telemetry.frames import Frame, FrameType
from ampcore.telemetry.range_samples import RangeSample

MAX_BLOCK_BYTES: Final = 16 * 2**20
MAX_STEPS: Final = 2**20
MAX_COLUMNS: Final = 256
MAX_STEP: Final = 2**53
MAX_TEXT: Final = 200
LAST: Final = ("loss", "loss_scale", "grad_norm", "learning_rate")


def checked(frame: Frame) -> Frame:
    """A frame of a sandboxed trainer in the form that other trainers send.

    Raises ValueError for content that no trainer sends.
    """
    match frame.type:
        case FrameType.RUNNING:
            return replace(frame, header=_checked_start(frame.header))
        case FrameType.EVENT:
            return replace(frame, header=_checked_event(frame.header))
        case FrameType.STEPS:
            return _checked_steps(frame)
        case _:
            return frame


def _checked_start(header: Mapping[str, Any]) -> dict[str, Any]:
    policy = header.get("policy")
    return {
        "total_steps": _step("total_steps", header.get("total_steps")),
        "first_step": _step("first_step", header.get("first_step")),
        "policy": _text("policy", policy) if policy is not None else None,
    }


def _checked_event(header: Mapping[str, Any]) -> dict[str, Any]:
    step, data = header.get("step"), header.get("data")
    if not isinstance(data, dict):
        raise _invalid("the data of an event", "an object", data)
    for name in ("file", "signature", "weights", "examples"):
        if name in data and data[name] is not None:
            _text(f"the event's {name}", data[name], most=4096)
    event_type = EventType(_text("the type of an event", header.get("event")))
    if event_type is EventType.RANGES:
        # Servers compute with it.
        data = RangeSample.from_untrusted(_step("a sample", header.get("step")), data).to_json()
    return {
        "event": event_type,
        "step": None if step is None else _step("the step of an event", step),
        "data": data,
    }


def _checked_steps(frame: Frame) -> Frame:
    from ampcore.telemetry.codec import encode  # imports pyarrow

    columns = array_codec.decode_untrusted(frame.payload, MAX_BLOCK_BYTES)
    lengths = {len(values) for values in columns.values()}
    if (
        not 0 < len(columns) <= MAX_COLUMNS
        or len(lengths) != 1
        or not 0 < min(lengths) <= MAX_STEPS
    ):
        expected = f"1 to {MAX_COLUMNS} columns of one length from 1 to {MAX_STEPS}"
        raise _invalid("a block", expected, sorted(lengths)[:2])
    for name, values in columns.items():
        if name == "step" or not COLUMN_NAME.fullmatch(name):
            raise _invalid("the name of a column", COLUMN_NAME.pattern, name)
        if values.dtype != np.dtype(COLUMNS.get(name, np.float32)):
            raise _invalid(f"the dtype of {name}", str(COLUMNS.get(name, "float32")), values.dtype)
    for name in ("step_time_s", "examples"):
        if name not in columns or not (columns[name] >= 0).all():
            raise _invalid(name, "numbers of 0 or more", "other values")
    block = StepBlock(_step("first_step", frame.header.get("first_step")), columns)
    _step("the end of a block", block.end_step)
    last = {name: float(block[name][-1]) for name in LAST if name in block}
    health = frame.header.get("scale_health")
    header = {
        "first_step": block.first_step,
        "count": len(block),
        "stats": asdict(block.stats),
        "last": {**last, "examples_per_s": block.examples_per_s},
        "scale_health": _text("scale_health", health) if health is not None else None,
    }
    return replace(frame, header=header, payload=encode(block))


def _step(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_STEP:
        raise _invalid(name, f"an integer from 0 to {MAX_STEP}", value)
    return value


def _text(name: str, value: object, *, most: int = MAX_TEXT) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise _invalid(name, f"at most {most} characters", value)
    return value


def _invalid(name: str, expected: str, received: object) -> ValueError:
    return ValueError(
        f"the trainer sent false telemetry: {name}: expected {expected}, "
        f"received {str(received)[:MAX_TEXT]}"
    )
