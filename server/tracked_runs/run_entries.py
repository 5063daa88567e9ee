"""Convert the entries of an upload into the rows of a tracked run, with every value checked."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ampspec.api.runs import (
    MAX_COLUMNS,
    MAX_STEP,
    MAX_STEPS,
    Entry,
    RunAttempt,
    RunEntries,
    RunEvent,
    RunLog,
    RunSteps,
)
from ampspec.documents.problems import Location, format_value, json_pointer
from ampspec.jobs import Problem
from ampspec.jobs.tracked import COLUMN_NAME
from ampspec.telemetry import COLUMN_DTYPES, Event, EventType, StepBlock
from ampspec.telemetry.json_values import column_from_json
from ampspec.telemetry.steps import array_codec
from ampspec.telemetry.steps.block import LATEST_COLUMNS
from ampspec.telemetry.steps.missing import MISSING, is_missing
from server.errors import RequestInvalid
from store.jobs.tracked_runs import EntriesBatch, NewAttempt, RunEntry
from store.telemetry.ingest import EncodedBlock, LogChunk

DEFAULTS: Final[dict[str, float]] = {
    "loss": MISSING,
    "loss_scale": 1.0,
    "skipped": False,
    "step_time_s": 0.0,
    "examples": 0,
}
"""Values of columns that were left out; other columns are not stored then, and not plotted."""
MAX_INT32: Final = 2**31 - 1
MAX_STEP_TIME_S: Final = 1e9
MAX_PACKED_BYTES: Final = 8 * 2**20
"""The size of the unpacked columns of one entry."""


def batch_of(body: RunEntries) -> EntriesBatch:
    """The entries as they are stored. Raises RequestInvalid for the first invalid one."""
    entries: list[RunEntry] = []
    steps = 0
    for index, entry in enumerate(body.entries):
        at: Location = ("body", "entries", index)
        entries.append(_stored_entry(entry, at))
        if isinstance(stored_entry := entries[-1], EncodedBlock):
            steps += stored_entry.count
            if steps > MAX_STEPS:
                raise _invalid(at, f"at most {MAX_STEPS} steps in an upload", steps)
    return EntriesBatch(body.first_entry, entries, body.total_steps)


def _stored_entry(entry: Entry, at: Location) -> RunEntry:
    match entry:
        case RunSteps():
            return _encoded_block(entry, at)
        case RunEvent():
            return Event(EventType(entry.event), entry.step, entry.data)
        case RunLog():
            return LogChunk(entry.stream, entry.text)
        case RunAttempt():
            return NewAttempt(entry.first_step)


def _encoded_block(entry: RunSteps, at: Location) -> EncodedBlock:
    from ampspec.telemetry.steps.codec import (
        encode,  # imports pyarrow, which delays the server's start
    )

    columns, names = _columns(entry, at)
    steps = columns.pop("step", None)
    try:
        block = StepBlock(entry.first_step, columns, steps)
    except ValueError as error:
        raise _invalid((*at, "first_step"), "the first of ascending steps", str(error)) from None
    if block.end_step > MAX_STEP:
        raise _invalid((*at, "first_step"), f"steps below {MAX_STEP}", block.end_step - 1)
    latest: dict[str, Any] = {
        name: value
        for name in LATEST_COLUMNS
        if name in names and (value := _last_value(block, name)) is not None
    }
    if block["examples"].any():  # else the program does not say how many there are
        latest["examples_per_s"] = block.examples_per_s
    return EncodedBlock(
        first_step=block.first_step,
        count=len(block),
        stats=block.stats,
        payload=encode(block),
        latest=latest,
        totals={} if entry.scale_health is None else {"scale_health": entry.scale_health},
        columns=tuple(block.names),
        missing_steps=block.end_step - block.first_step - len(block),
    )


def _last_value(block: StepBlock, name: str) -> float | None:
    """The value in the last cell of a column that is not empty; None without one."""
    if name not in block:
        return None
    values = block[name][~is_missing(block[name])]
    return float(values[-1]) if len(values) else None


def _columns(entry: RunSteps, at: Location) -> tuple[dict[str, NDArray[Any]], set[str]]:
    """The columns in the dtypes of a block, those of every block first; and which were sent."""
    values_by_name, at = _given_columns(entry, at)
    lengths = {len(values) for values in values_by_name.values()}
    if len(lengths) != 1 or not 0 < (count := lengths.pop()) <= MAX_STEPS:
        raise _invalid(at, f"columns of one length from 1 to {MAX_STEPS}", sorted(lengths))
    arrays = {name: _column(name, values, (*at, name)) for name, values in values_by_name.items()}
    numbers = {"step": arrays.pop("step")} if "step" in arrays else {}
    for name, value in DEFAULTS.items():
        if name not in arrays:
            arrays[name] = np.full(count, value, COLUMN_DTYPES[name])
    columns = {name: arrays[name] for name in (*COLUMN_DTYPES, *arrays) if name in arrays}
    for name, maximum in (("step_time_s", MAX_STEP_TIME_S), ("examples", np.inf)):
        values = columns[name]
        if not ((values >= 0) & (values <= maximum)).all():
            raise _invalid((*at, name), "finite numbers of 0 or more", "another number")
    return numbers | columns, set(values_by_name)


def _given_columns(
    entry: RunSteps, at: Location
) -> tuple[Mapping[str, Sequence[Any] | NDArray[Any]], Location]:
    if (entry.columns is None) == (entry.packed is None):
        raise _invalid(at, "either columns or packed", "both or none of them")
    if entry.columns is not None:
        return {name: column_from_json(values) for name, values in entry.columns.items()}, (
            *at,
            "columns",
        )
    at = (*at, "packed")
    try:
        packed = base64.b64decode(entry.packed or "", validate=True)
        columns = array_codec.decode_untrusted(packed, MAX_PACKED_BYTES)
    except (binascii.Error, ValueError) as error:
        raise _invalid(at, "columns encoded in Base64", str(error)) from None
    unknown = [name for name in columns if not COLUMN_NAME.fullmatch(name)]
    if unknown or len(columns) > MAX_COLUMNS:
        expected = f"at most {MAX_COLUMNS} columns with names that match {COLUMN_NAME.pattern}"
        raise _invalid(at, expected, unknown[:1] or len(columns))
    return columns, at


def _column(name: str, values: Sequence[Any] | NDArray[Any], at: Location) -> NDArray[Any]:
    dtype = np.dtype(np.int64 if name == "step" else COLUMN_DTYPES.get(name, np.float32))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            if dtype.kind == "i":
                return _integers(values, dtype, MAX_STEP if name == "step" else MAX_INT32)
            numbers = np.asarray(values, np.float64)
            if dtype.kind == "b":
                numbers = np.where(is_missing(numbers), 0.0, numbers)
            return numbers.astype(dtype)
    except (OverflowError, ValueError, TypeError):
        raise _invalid(at, f"numbers that fit into {dtype.name}", "other values") from None


def _integers(
    values: Sequence[Any] | NDArray[Any], dtype: np.dtype[Any], limit: int
) -> NDArray[Any]:
    """As integers from -limit to limit. Raises ValueError for other numbers."""
    exact = np.asarray(values, np.float64)
    if dtype != np.int64:
        exact = np.where(is_missing(exact), 0.0, exact)
    if not ((exact == np.floor(exact)) & (abs(exact) <= limit)).all():
        raise ValueError
    return exact.astype(dtype)


def _invalid(at: Location, expected: str, received: object) -> RequestInvalid:
    problem = Problem(json_pointer(at), "invalid_value", expected, format_value(received))
    return RequestInvalid([problem])
