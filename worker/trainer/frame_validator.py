"""Validates every frame of a trainer before the worker uses it, and encodes blocks for storage.

A trainer may run code of a user, which can write any bytes into its pipe; what the worker stores is
read by servers and by everyone who looks at the job. So types, sizes, depth, order and columns are
checked here, the sums of steps are computed here, and the first wrong frame ends the attempt
(docs/adr/0075). Encoding imports pyarrow, with the first block.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ampspec.jobs.tracked import COLUMN_NAME
from ampspec.telemetry import COLUMN_DTYPES, EventType, StepBlock
from ampspec.telemetry.frames import Frame, FrameType
from ampspec.telemetry.json_values import json_safe, storable_text
from ampspec.telemetry.ranges.range_samples import RangeSample
from ampspec.telemetry.steps import array_codec
from ampspec.telemetry.steps.block import LATEST_COLUMNS
from ampspec.telemetry.steps.steps_frame import MAX_BLOCK_BYTES
from worker.trainer.frame_schema import (
    EVENTS_OF_OTHERS,
    EVENTS_WITH_FILE,
    MAX_HEADER_BYTES,
    MAX_STEP,
    REASONS_OF_OTHERS,
    SCHEMAS,
    EventData,
    EventWithFile,
    Header,
    SummaryHeader,
)

MAX_STEPS: Final = 2**20
MAX_COLUMNS: Final = 256
"""Distinct columns of an attempt."""
MAX_STEP_TIME_S: Final = 1e9
MAX_RECEIVED: Final = 100
"""Characters of a wrong value in a message."""
REQUIRED_COLUMNS: Final = ("loss", "skipped", "step_time_s", "examples")
FINAL_FRAMES: Final = (FrameType.SUCCEEDED, FrameType.FAILED, FrameType.STOPPED)


class InvalidTelemetry(ValueError):
    """A frame that no trainer sends; the message says what was expected."""


class FrameValidator:
    """Validates the frames of one trainer, in order."""

    def __init__(self) -> None:
        self._last: FrameType | None = None
        self._next_step: int | None = None
        """The first step of the next block; None before the training begins."""
        self._columns: set[str] = set()

    def validate(self, frame: Frame) -> Frame:
        """The frame with the fields that the worker uses, and with an encoded block.

        Raises InvalidTelemetry.
        """
        try:
            self._check_order(frame.type)
            header = _checked_header(frame)
            match frame.type:
                case FrameType.RUNNING:
                    self._next_step = header["first_step"]
                case FrameType.EVENT:
                    header = _checked_event(header)
                case FrameType.STEPS:
                    frame, header = self._checked_steps(frame, header)
                case FrameType.FAILED if header["reason"] in REASONS_OF_OTHERS:
                    raise _invalid("reason", "a reason of a trainer", header["reason"])
                case FrameType.READY:
                    header = json_safe(header)  # workers are listed with it
                case FrameType.SUCCEEDED:
                    _validated(SummaryHeader, header["summary"], "summary")
        except InvalidTelemetry:
            raise
        except Exception as error:  # whatever code of a user makes a library raise
            raise InvalidTelemetry(f"a {frame.type} frame: {error}") from None
        self._last = frame.type
        return replace(frame, header=header)

    def _check_order(self, frame_type: FrameType) -> None:
        if (self._last is None) != (frame_type is FrameType.READY):
            raise InvalidTelemetry(
                f"expected one ready frame, and before all others; received {frame_type}"
            )
        if self._last in FINAL_FRAMES:
            raise InvalidTelemetry(f"expected no frame after {self._last}; received {frame_type}")
        has_begun = self._next_step is not None
        if frame_type is FrameType.RUNNING and has_begun:
            raise InvalidTelemetry("expected one running frame; received another one")
        if frame_type is FrameType.STEPS and not has_begun:
            raise InvalidTelemetry("expected a running frame before the first steps")

    def _checked_steps(
        self, frame: Frame, header: Mapping[str, Any]
    ) -> tuple[Frame, dict[str, Any]]:
        from ampspec.telemetry.steps.codec import encode  # imports pyarrow

        columns = array_codec.decode_untrusted(frame.payload, MAX_BLOCK_BYTES)
        _check_columns(columns)
        self._columns |= columns.keys()
        if len(self._columns) > MAX_COLUMNS:
            raise _invalid("the columns of an attempt", f"at most {MAX_COLUMNS}", "more")
        if header["first_step"] != self._next_step:
            raise _invalid("first_step", str(self._next_step), header["first_step"])
        block = StepBlock(header["first_step"], columns)
        if block.end_step > MAX_STEP:
            raise _invalid("the end of a block", f"at most {MAX_STEP}", block.end_step)
        self._next_step = block.end_step
        last = {name: float(block[name][-1]) for name in LATEST_COLUMNS if name in block}
        checked = {
            **header,
            "count": len(block),
            "stats": asdict(block.stats),
            "last": {**last, "examples_per_s": block.examples_per_s},
        }
        return replace(frame, payload=encode(block)), checked


def _checked_header(frame: Frame) -> dict[str, Any]:
    limit = MAX_HEADER_BYTES[frame.type]
    header_bytes = frame.size_bytes - len(frame.payload)
    if header_bytes > limit:
        raise _invalid("its header", f"at most {limit} bytes", header_bytes)
    if frame.payload and frame.type is not FrameType.STEPS:
        raise _invalid("its payload", "no bytes", len(frame.payload))
    return _validated(SCHEMAS[frame.type], frame.header).model_dump()


def _validated(schema: type[Header], document: Mapping[str, Any], *where: str) -> Header:
    """Raises ValueError with the first problem; `where` is the place of the document."""
    try:
        return schema.model_validate(document)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join([*where, *map(str, problem["loc"])])
        expected = problem.get("ctx", {}).get("error") or problem["msg"]
        raise ValueError(f"{name}: {expected}; received {_text(problem['input'])}") from None


def _checked_event(header: dict[str, Any]) -> dict[str, Any]:
    event, data = header["event"], header["data"]
    _validated(EventWithFile if event in EVENTS_WITH_FILE else EventData, data, "data")
    if event in EVENTS_OF_OTHERS:
        raise _invalid("event", "an event of a trainer", event)
    if event is EventType.EVALUATION and header["step"] is None:
        raise _invalid("step", "the step of the evaluation", None)
    if event is EventType.RANGES:
        # Servers compute with it.
        data = RangeSample.from_untrusted(header["step"] or 0, data).to_json()
    return {**header, "data": data}


def _check_columns(columns: Mapping[str, NDArray[Any]]) -> None:
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or not 0 < min(lengths) <= MAX_STEPS:
        expected = f"columns of one length from 1 to {MAX_STEPS}"
        raise _invalid("a block", expected, sorted(lengths)[:2])
    if missing := [name for name in REQUIRED_COLUMNS if name not in columns]:
        raise _invalid("a block", f"a column {missing[0]}", list(columns)[:5])
    for name, values in columns.items():
        if name == "step" or not COLUMN_NAME.fullmatch(name):
            raise _invalid("the name of a column", COLUMN_NAME.pattern, name)
        dtype = np.dtype(COLUMN_DTYPES.get(name, np.float32))
        if values.dtype != dtype:
            raise _invalid(f"the dtype of {name}", str(dtype), values.dtype)
    for name, limit in (("step_time_s", MAX_STEP_TIME_S), ("examples", np.inf)):
        if not ((columns[name] >= 0) & (columns[name] <= limit)).all():
            raise _invalid(name, "finite numbers of 0 or more", "other values")


def _invalid(name: str, expected: str, received: object) -> ValueError:
    return ValueError(f"{name}: expected {expected}; received {_text(received)}")


def _text(received: object) -> str:
    if isinstance(received, dict | list):
        return f"a {type(received).__name__}"  # its text may be as deep and large as it is
    return storable_text(str(received)[:MAX_RECEIVED])
