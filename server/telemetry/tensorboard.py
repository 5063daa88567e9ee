"""Steps as a TensorBoard event file: one Event per step, as a TFRecord.

Sources: tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto for the
messages, tensorflow/core/lib/io/record_writer.h for the records. Existing packages for such files
contain a web server or threads, and encode each event separately.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from crc32c import crc32c
from numpy.typing import DTypeLike, NDArray

from server.telemetry.step_table import StepTable
from store.telemetry.evaluations import EvaluationsIn, StoredEvaluation, no_evaluations

# A protobuf field starts with its number << 3 | its wire type: 0 a varint, 1 eight bytes,
# 2 a length and as many bytes, 5 four bytes.
WALL_TIME: Final = b"\x09"  # Event.wall_time
STEP: Final = b"\x10"  # Event.step
FILE_VERSION: Final = b"\x1a"  # Event.file_version
SUMMARY: Final = b"\x2a"  # Event.summary
VALUE: Final = b"\x0a"  # Summary.value
TAG: Final = b"\x0a"  # Summary.Value.tag
SIMPLE_VALUE: Final = b"\x15"  # Summary.Value.simple_value

VERSION: Final = b"brain.Event:2"
HEAD_BYTES: Final = 12
"""The header of a record: the length of its data, and the checksum of that length."""
RECORDS_PER_CHUNK: Final = 4096
"""Records encoded at once: they fit into the processor's cache."""
VARINT_BOUNDS: Final = np.uint64(1) << np.arange(7, 70, 7, dtype=np.uint64)
"""The smallest numbers whose varints take 2, 3, …, 10 bytes."""


def file_version_record(wall_time: float) -> bytes:
    """The first record of every file: the version of its format. `wall_time` is Unix, in s."""
    data = WALL_TIME + struct.pack("<d", wall_time) + _length_delimited(FILE_VERSION, VERSION)
    return _head(len(data)) + _with_checksum(data)


def event_file(
    tables: Iterable[StepTable],
    began_at: float,
    evaluations_in: EvaluationsIn = no_evaluations,
) -> Iterator[bytes]:
    """The event file of a run that started at `began_at`, with no pauses between its steps.

    Every column becomes a tag, and so do the throughput, `examples_per_s`, and each metric.
    """
    yield file_version_record(began_at)
    end = began_at
    for table in tables:
        seconds = _seconds(table)
        wall_times = end + np.cumsum(seconds)
        end = float(wall_times[-1]) if len(wall_times) else end
        values = {name: column for name, column in table.items() if name != "step"}
        if "examples" in table and "step_time_s" in table:
            with np.errstate(divide="ignore", invalid="ignore"):
                values["examples_per_s"] = table["examples"] / table["step_time_s"]
        yield events(table["step"], wall_times, values)
        if len(wall_times):
            yield _evaluation_events(table, wall_times, evaluations_in)


def _evaluation_events(
    table: StepTable, wall_times: NDArray[np.float64], evaluations_in: EvaluationsIn
) -> bytes:
    """The evaluations in the range of a table, at the times of their steps."""
    steps = table["step"]
    last_count = int(table["count"][-1]) if "count" in table else 1
    by_names: dict[tuple[str, ...], list[StoredEvaluation]] = {}
    for evaluation in evaluations_in(int(steps[0]), int(steps[-1]) + last_count):
        by_names.setdefault(tuple(evaluation.metrics), []).append(evaluation)
    return b"".join(
        events(
            at := np.array([evaluation.step for evaluation in group], np.int64),
            wall_times[np.searchsorted(steps, at, side="right") - 1],
            {name: np.array([evaluation.metrics[name] for evaluation in group]) for name in names},
        )
        for names, group in by_names.items()
        if names
    )


def _seconds(table: StepTable) -> NDArray[np.float64]:
    """The duration of each step, or of all steps of a bucket, in seconds."""
    if "step_time_s.mean" in table:
        seconds = table["step_time_s.mean"].astype(np.float64) * table["count"]
    else:
        seconds = table["step_time_s"].astype(np.float64)
    return np.nan_to_num(seconds, posinf=0.0)


def events(
    steps: NDArray[np.int64], wall_times: NDArray[np.float64], values: Mapping[str, NDArray[Any]]
) -> bytes:
    """One record per step, in order, with a scalar for every tag; b"" without steps.

    `wall_times` are Unix, in seconds. Values become float32: bools 0 and 1, numbers beyond its
    range infinities; NaN and infinities stay. Raises ValueError for columns of unequal lengths.
    """
    lengths = [len(column) for column in (steps, wall_times, *values.values())]
    if len(set(lengths)) > 1:
        raise ValueError(f"expected columns of one length, received lengths {lengths}")
    unsigned = steps.astype(np.uint64)  # protobuf also encodes an int64 as its bits
    return b"".join(
        _records(
            unsigned[piece],
            wall_times[piece],
            {name: column[piece] for name, column in values.items()},
        )
        for piece in _pieces(_varint_sizes(unsigned))
    )


def _pieces(sizes: NDArray[np.intp]) -> Iterator[slice]:
    """Split where the size of the step's varint changes, and after RECORDS_PER_CHUNK steps."""
    edges = [0, *(np.flatnonzero(np.diff(sizes)) + 1).tolist(), len(sizes)]
    for start, end in pairwise(edges):
        for low in range(start, end, RECORDS_PER_CHUNK):
            yield slice(low, min(low + RECORDS_PER_CHUNK, end))


def _records(
    steps: NDArray[np.uint64], wall_times: NDArray[np.float64], values: Mapping[str, NDArray[Any]]
) -> bytes:
    """The records of steps whose varints, and so the records, have the same size."""
    step_size = int(_varint_sizes(steps[:1])[0])
    summary, offsets = _summary(values)
    prefix = WALL_TIME + bytes(8) + STEP + bytes(step_size)
    data = prefix + _length_delimited(SUMMARY, summary)
    blank = np.frombuffer(_head(len(data)) + data + bytes(4), np.uint8)
    records = np.tile(blank, (len(steps), 1))  # shape (steps, bytes)
    inside = records[:, HEAD_BYTES:-4]
    _write_column(inside, len(WALL_TIME), wall_times, "<f8")
    inside[:, len(prefix) - step_size : len(prefix)] = _varints(steps, step_size)
    for offset, column in zip(offsets, values.values(), strict=True):
        _write_column(inside, len(data) - len(summary) + offset, column, "<f4")
    checksums = _checksums(inside.view(f"V{len(data)}")[:, 0].tolist())
    _write_column(records, HEAD_BYTES + len(data), checksums, "<u4")
    return records.tobytes()


def _summary(names: Mapping[str, Any]) -> tuple[bytes, list[int]]:
    """A Summary with zeros for all values, and the offset of each value in it."""
    summary, offsets = b"", []
    for name in names:
        summary += _length_delimited(
            VALUE, _length_delimited(TAG, name.encode()) + SIMPLE_VALUE + bytes(4)
        )
        offsets.append(len(summary) - 4)
    return summary, offsets


def _write_column(
    rows: NDArray[np.uint8], offset: int, column: NDArray[Any], dtype: DTypeLike
) -> None:
    """Write one number into each row, starting at byte `offset`."""
    numbers = rows[:, offset : offset + np.dtype(dtype).itemsize].view(dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # infinity and NaN are valid values
        numbers[:, 0] = column


def _head(size_bytes: int) -> bytes:
    return _with_checksum(struct.pack("<Q", size_bytes))


def _with_checksum(data: bytes) -> bytes:
    return data + _checksums([data]).astype("<u4").tobytes()


def _checksums(pieces: Sequence[bytes]) -> NDArray[np.uint32]:
    """The masked CRC-32C of each; masked because a record may contain other records."""
    sums = np.fromiter(map(crc32c, pieces), np.uint32, len(pieces))
    return (sums >> np.uint32(15) | sums << np.uint32(17)) + np.uint32(0xA282EAD8)


def _length_delimited(field: bytes, content: bytes) -> bytes:
    digits, size = [], len(content)
    while size > 0x7F:
        digits.append(size & 0x7F | 0x80)
        size >>= 7
    return field + bytes([*digits, size]) + content


def _varint_sizes(numbers: NDArray[np.uint64]) -> NDArray[np.intp]:
    return np.searchsorted(VARINT_BOUNDS, numbers, side="right") + 1


def _varints(numbers: NDArray[np.uint64], size: int) -> NDArray[np.uint8]:
    """Varints: 7 bits per byte, lowest first, with a continuation bit. Shape (numbers, size)."""
    shifts = np.arange(0, 7 * size, 7, dtype=np.uint64)
    digits = (numbers[:, np.newaxis] >> shifts & np.uint64(0x7F)).astype(np.uint8)
    digits[:, :-1] |= 0x80
    return digits
