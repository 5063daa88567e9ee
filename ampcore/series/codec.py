"""StepBlocks and Buckets as bytes and back: one Arrow IPC stream, compressed with Zstandard.

Every value survives, NaN and the infinities included; those of steps bit for bit, the means of
buckets as float32. What the columns belong to stands in the metadata of the schema.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ampcore.series.block import StepBlock
from ampcore.series.buckets import SKIPPED, Aggregate, Buckets

FIRST_STEP: Final = "first_step"
END_STEP: Final = "end_step"
SIZE: Final = "size"
PARTS: Final = tuple(each.name for each in fields(Aggregate))
"""Of an aggregated column; each is stored as `<column>.<part>`."""
STORED: Final[dict[str, Any]] = {"mean": np.float32, "finite": np.int32}
LOADED: Final[dict[str, Any]] = {"mean": np.float64, "finite": np.int64}


def encode(block: StepBlock) -> bytes:
    """The block as a self-describing Arrow stream."""
    return _encoded({name: block[name] for name in block.names}, {FIRST_STEP: block.first_step})


def decode(payload: bytes) -> StepBlock:
    """The block that `encode` made into `payload`. Raises ValueError for other bytes."""
    columns, facts = _decoded(payload, "StepBlock", FIRST_STEP)
    return StepBlock(facts[FIRST_STEP], columns)


def encode_buckets(buckets: Buckets) -> bytes:
    """Buckets as a self-describing Arrow stream; means are kept as float32."""
    columns = {SKIPPED: buckets.skipped.astype(np.int32)}
    for name in buckets.names:
        for part in PARTS:
            values = getattr(buckets[name], part)
            columns[f"{name}.{part}"] = values.astype(STORED.get(part, values.dtype))
    facts = {SIZE: buckets.size, FIRST_STEP: buckets.first_step, END_STEP: buckets.end_step}
    return _encoded(columns, facts)


def decode_buckets(payload: bytes) -> Buckets:
    """What `encode_buckets` made into `payload`. Raises ValueError for other bytes."""
    stored, facts = _decoded(payload, "series of Buckets", SIZE, FIRST_STEP, END_STEP)
    skipped = stored.pop(SKIPPED).astype(np.int64)
    names = dict.fromkeys(name.rpartition(".")[0] for name in stored)
    columns = {
        name: Aggregate(
            **{
                part: (values := stored[f"{name}.{part}"]).astype(LOADED.get(part, values.dtype))
                for part in PARTS
            }
        )
        for name in names
    }
    return Buckets(facts[SIZE], facts[FIRST_STEP], facts[END_STEP], skipped, columns)


def _encoded(columns: Mapping[str, NDArray[Any]], facts: Mapping[str, int]) -> bytes:
    arrays = [pa.array(values, from_pandas=False) for values in columns.values()]
    schema = pa.schema(
        [pa.field(name, array.type) for name, array in zip(columns, arrays, strict=True)],
        metadata={name: str(value) for name, value in facts.items()},
    )
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def _decoded(
    payload: bytes, kind: str, *names: str
) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    try:
        with pa.ipc.open_stream(payload) as reader:
            table = reader.read_all()
        facts = {name: int(table.schema.metadata[name.encode()]) for name in names}
    except (pa.ArrowInvalid, KeyError, TypeError) as error:
        raise ValueError(f"expected an encoded {kind}, received other bytes: {error}") from None
    columns = zip(table.column_names, table.columns, strict=True)
    return {name: column.to_numpy(zero_copy_only=False) for name, column in columns}, facts
