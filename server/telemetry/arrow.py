"""Steps as an Arrow stream and as a Parquet file, encoded while they are sent."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ampspec.telemetry.steps.arrow_arrays import to_arrow
from server.telemetry.step_table import StepTable


class ChunkBuffer:
    """A writable file object whose content is taken out in chunks."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        """Append bytes."""
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing: the content is kept until it is taken."""

    def taken(self) -> bytes:
        """Remove and return what was written."""
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def to_record_batch(table: StepTable, *, with_nulls: bool = False) -> pa.RecordBatch:
    """The table as an Arrow record batch; NaN stays NaN.

    Empty cells are null `with_nulls`, else `MISSING`, a NaN with bits of its own.
    """
    arrays = [to_arrow(column, with_nulls=with_nulls) for column in table.values()]
    return pa.record_batch(arrays, names=list(table))


def arrow_stream(tables: Iterable[StepTable]) -> Iterator[bytes]:
    """The Arrow IPC streaming format, a record batch for each table."""
    sink = ChunkBuffer()
    writer = None
    for table in tables:
        batch = to_record_batch(table)
        writer = writer or pa.ipc.new_stream(pa.PythonFile(sink, "w"), batch.schema)
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
    yield sink.taken()


def parquet(tables: Iterable[StepTable]) -> Iterator[bytes]:
    """A Parquet file, a row group for each table; empty cells are null."""
    from pyarrow import parquet as pq  # 4 MB that the other formats do without

    sink = ChunkBuffer()
    writer = None
    for table in tables:
        batch = to_record_batch(table, with_nulls=True)
        writer = writer or pq.ParquetWriter(
            pa.PythonFile(sink, "w"), batch.schema, compression="zstd"
        )
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
    yield sink.taken()
