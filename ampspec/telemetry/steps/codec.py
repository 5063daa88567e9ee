"""Encodes StepBlocks and Buckets as Arrow IPC streams, compressed with Zstandard.

Every value survives, including NaN and infinities: values of steps bit for bit, means of buckets
as float32. The first step, or the size of the buckets, is in the schema's metadata.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ampspec.telemetry.steps.arrow_arrays import to_arrow, to_numpy
from ampspec.telemetry.steps.block import StepBlock
from ampspec.telemetry.steps.buckets import SKIPPED, Aggregate, Buckets, Extent

FIRST_STEP: Final = "first_step"
SIZE: Final = "size"
FIRST_CELL: Final = "first_cell"
STEPS: Final = "~step"
"""The column with the numbers of steps with gaps, each as the distance to the previous step."""
CELL, EARLY, LATE, LACKING = "~cell", "~early", "~late", "~missing"
"""Columns for where each bucket begins and ends in its cell, and how many steps it lacks."""
EXTENT_COLUMNS: Final = (CELL, EARLY, LATE, LACKING, SKIPPED)
AGGREGATE_FIELDS: Final = tuple(part.name for part in fields(Aggregate))
"""The parts of an aggregated column, stored as `<column>.<part>`."""
STORED_DTYPES: Final[dict[str, Any]] = {"mean": np.float32, "finite": np.int32}
LOADED_DTYPES: Final[dict[str, Any]] = {"mean": np.float64, "finite": np.int64}


ColumnFilter = Callable[[str], bool]
"""Whether to read a column of this name."""


def keep_all(_name: str) -> bool:
    """Keep all columns."""
    return True


def encode(block: StepBlock) -> bytes:
    """The block as a self-describing Arrow stream."""
    columns = {name: block[name] for name in block.names}
    if block.has_gaps:
        columns[STEPS] = np.diff(block["step"], prepend=block.first_step)
    return _encoded(columns, {FIRST_STEP: block.first_step})


def decode(payload: bytes, keep: ColumnFilter = keep_all) -> StepBlock:
    """The block that `encode` wrote to `payload`, with the columns that `keep` selects.

    The first column is kept where `keep` selects none. Raises ValueError for other bytes.
    """
    columns, metadata = _decoded(
        payload, "StepBlock", [FIRST_STEP], lambda name: name == STEPS or keep(name)
    )
    first_step, distances = metadata[FIRST_STEP], columns.pop(STEPS, None)
    if distances is None:
        return StepBlock(first_step, columns)
    return StepBlock(first_step, columns, first_step + np.cumsum(distances))


def encode_buckets(buckets: Buckets) -> bytes:
    """Buckets as a self-describing Arrow stream; means are kept as float32."""
    cells = buckets.cells
    starts = cells * buckets.size
    columns = {
        # For adjacent complete buckets these are ones and zeros, which compress to almost nothing.
        CELL: np.diff(cells, prepend=cells[:1]),
        EARLY: buckets.starts - starts,
        LATE: starts + buckets.size - buckets.ends,
        LACKING: buckets.ends - buckets.starts - buckets.counts,
        SKIPPED: buckets.skipped,
    }
    stored = {name: values.astype(np.int32) for name, values in columns.items()}
    for name in buckets.names:
        for part in AGGREGATE_FIELDS:
            values = getattr(buckets[name], part)
            stored[f"{name}.{part}"] = values.astype(STORED_DTYPES.get(part, values.dtype))
    first_cell = int(cells[0]) if len(cells) else 0
    return _encoded(stored, {SIZE: buckets.size, FIRST_CELL: first_cell})


def decode_buckets(payload: bytes, keep: ColumnFilter = keep_all) -> Buckets:
    """The buckets that `encode_buckets` wrote to `payload`, with the columns that `keep` selects.

    Raises ValueError for other bytes.
    """

    def is_kept(name: str) -> bool:
        return name in EXTENT_COLUMNS or keep(name.rpartition(".")[0])

    stored, metadata = _decoded(payload, "series of Buckets", [SIZE, FIRST_CELL], is_kept)
    size = metadata[SIZE]
    cell, early, late, missing, skipped = (
        stored.pop(name).astype(np.int64) for name in EXTENT_COLUMNS
    )
    cells = (np.cumsum(cell) + metadata[FIRST_CELL]) * size
    starts, ends = cells + early, cells + size - late
    columns = {
        name: Aggregate(
            **{
                part: (values := stored[f"{name}.{part}"]).astype(
                    LOADED_DTYPES.get(part, values.dtype)
                )
                for part in AGGREGATE_FIELDS
            }
        )
        for name in dict.fromkeys(name.rpartition(".")[0] for name in stored)
    }
    extent = Extent(starts, ends, ends - starts - missing, skipped)
    return Buckets(size, extent, columns)


def _encoded(columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, int]) -> bytes:
    arrays = [to_arrow(values) for values in columns.values()]
    schema = pa.schema(
        [pa.field(name, array.type) for name, array in zip(columns, arrays, strict=True)],
        metadata={name: str(value) for name, value in metadata.items()},
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def _decoded(
    payload: bytes, kind: str, metadata: Sequence[str], keep: ColumnFilter
) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    try:
        schema = pa.ipc.read_schema(pa.BufferReader(payload))
        values = {name: int(schema.metadata[name.encode()]) for name in metadata}
        indices = [i for i, name in enumerate(schema.names) if keep(name)]
        # An empty list would mean all columns; one column gives the number of rows.
        if all(schema.names[i] == STEPS for i in indices):
            indices = [0, *indices]
        options = pa.ipc.IpcReadOptions(included_fields=indices, use_threads=False)
        with pa.ipc.open_stream(payload, options=options) as reader:
            batch = reader.read_next_batch()
    except (pa.ArrowInvalid, OSError, StopIteration, KeyError, TypeError) as error:
        raise ValueError(f"expected an encoded {kind}, received other bytes: {error}") from None
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return {name: to_numpy(column) for name, column in columns}, values
