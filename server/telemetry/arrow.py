"""Tables as an Arrow stream and as a Parquet file, made while they are sent."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from server.telemetry.tables import Table


class Sink:
    """A file that is written to, and emptied now and then."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        """Take some bytes."""
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """What was written stays until it is taken."""

    def taken(self) -> bytes:
        """What was written since the last time."""
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def batch_of(table: Table) -> pa.RecordBatch:
    """The table as Arrow has it; NaN is a number there, too, and nothing is missing."""
    arrays = [pa.array(column, from_pandas=False) for column in table.values()]
    return pa.record_batch(arrays, names=list(table))


def arrow_stream(tables: Iterable[Table]) -> Iterator[bytes]:
    """The Arrow IPC streaming format, a record batch for each table."""
    sink = Sink()
    writer = None
    for table in tables:
        batch = batch_of(table)
        writer = writer or pa.ipc.new_stream(pa.PythonFile(sink, "w"), batch.schema)
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
    yield sink.taken()


def parquet(tables: Iterable[Table]) -> Iterator[bytes]:
    """A Parquet file, a row group for each table."""
    sink = Sink()
    writer = None
    for table in tables:
        batch = batch_of(table)
        writer = writer or pq.ParquetWriter(
            pa.PythonFile(sink, "w"), batch.schema, compression="zstd"
        )
        writer.write_batch(batch)
        yield sink.taken()
    if writer is not None:
        writer.close()
    yield sink.taken()
