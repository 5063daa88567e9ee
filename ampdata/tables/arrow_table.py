"""Tables in the cache: an Arrow IPC file that is memory-mapped, and a description of its columns.

Numbers and vectors are stored as Arrow has them, booleans as uint8, text and images as bytes.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from ampdata.limits import Limits
from ampdata.source import Column, Dtype, LeftOut
from ampspec.errors import InvalidData

TABLE: Final = "table.arrow"
COLUMNS: Final = "columns.json"
BATCH_ROWS: Final = 65_536
BATCH_BYTES: Final = 8 * 2**20

ARROW_TYPES: Final[dict[Dtype, pa.DataType]] = {
    "uint8": pa.uint8(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "bool": pa.uint8(),
    "string": pa.binary(),
    "image": pa.binary(),
}


def storage_type(column: Column) -> pa.DataType:
    """The Arrow type of a stored column. Vectors and matrices are flat lists."""
    scalar = ARROW_TYPES[column.dtype]
    if column.dtype == "image" or column.shape == ():
        return scalar
    return pa.list_(scalar, math.prod(column.shape))


class Damage(NamedTuple):
    """The parts of an InvalidData."""

    source: str
    field: str | None
    expected: str
    received: str

    @classmethod
    def of(cls, error: InvalidData) -> "Damage":
        """The parts of this error."""
        return cls(error.source, error.field, error.expected, error.received)

    def error(self) -> InvalidData:
        """The error again."""
        return InvalidData(self.source, self.field, expected=self.expected, received=self.received)


@dataclass(frozen=True)
class StoredTable:
    """The contents of a converted table."""

    rows: int
    columns: Mapping[str, Column]
    """Images have the shape (height, width, 0), or (0, 0, 0) if their sizes differ."""
    files: Mapping[str, int]
    """The number of rows from each file, in their order."""
    left_out: Sequence[LeftOut] = ()
    """Columns that are not in the table, or only on request."""
    damaged: Mapping[str, Damage] = field(default_factory=dict)
    """The errors of columns that should be readable, but are not."""

    def write(self, folder: Path) -> None:
        """Write the description next to the table."""
        columns = [{"name": name, **asdict(column)} for name, column in self.columns.items()]
        document = {
            "rows": self.rows,
            "columns": columns,
            "files": dict(self.files),
            "left_out": [asdict(part) for part in self.left_out],
            "damaged": dict(self.damaged),
        }
        (folder / COLUMNS).write_text(json.dumps(document), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "StoredTable":
        """Read the description written by `write`."""
        document = json.loads((folder / COLUMNS).read_text(encoding="utf-8"))
        columns = {}
        for values in document["columns"]:
            classes = None if values["classes"] is None else tuple(values["classes"])
            shape = tuple(values["shape"])
            columns[values["name"]] = Column(shape, values["dtype"], classes, values["missing"])
        left_out = [LeftOut(**part) for part in document["left_out"]]
        damaged = {name: Damage(*parts) for name, parts in document["damaged"].items()}
        return cls(document["rows"], columns, document["files"], left_out, damaged)


class TableWriter:
    """Writes batches of moderate size, and counts rows, bytes and missing values."""

    def __init__(
        self, folder: Path, name: str, columns: Mapping[str, Column], limits: Limits
    ) -> None:
        """Create the file; `write` appends to it."""
        self._folder, self._name, self._columns, self._limits = folder, name, columns, limits
        self.schema = pa.schema([(key, storage_type(column)) for key, column in columns.items()])
        self._sink = pa.OSFile(str(folder / TABLE), "wb")
        self._writer = pa.ipc.new_file(self._sink, self.schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._missing = dict.fromkeys(columns, 0)
        self._files: Counter[str] = Counter()
        self.rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of the writer's schema. Raises InvalidData if they are too many."""
        self.rows += batch.num_rows
        self._bytes += batch.nbytes
        if self.rows > self._limits.rows:
            raise self._invalid(f"at most {self._limits.rows:,} rows")
        if self._bytes > self._limits.cache_bytes:
            raise self._invalid(f"at most {self._limits.cache_bytes:,} bytes as an Arrow table")
        for key in self._missing:
            self._missing[key] += batch.column(key).null_count
        # Small batches are joined and large ones divided: reading finds rows by batch.
        step = BATCH_ROWS
        if batch.nbytes > BATCH_BYTES:
            step = max(1, min(BATCH_ROWS, BATCH_BYTES * batch.num_rows // batch.nbytes))
        for start in range(0, batch.num_rows, step):
            self._append(batch.slice(start, step))

    def count_rows(self, file: str, rows: int) -> None:
        """Count written rows as rows of this file."""
        self._files[file] += rows

    def close(self) -> StoredTable:
        """Write the pending rows. Raises InvalidData for a table without rows."""
        self._flush()
        self._writer.close()
        self._sink.close()
        if not self.rows:
            raise InvalidData(self._name, None, expected="at least one row", received="none")
        columns = {
            key: replace(column, missing=self._missing[key])
            for key, column in self._columns.items()
        }
        return StoredTable(self.rows, columns, self._files)

    def _append(self, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        if self._pending and (
            self._pending_bytes + size > BATCH_BYTES
            or self._pending_rows + batch.num_rows > BATCH_ROWS
        ):
            self._flush()
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += size

    def _flush(self) -> None:
        if len(self._pending) == 1:
            self._writer.write_batch(self._pending[0])
        elif self._pending:
            self._writer.write_batch(pa.concat_batches(self._pending))
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _invalid(self, expected: str) -> InvalidData:
        return InvalidData(self._name, None, expected=expected, received="more")
