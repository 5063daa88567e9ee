"""Tables as JSON columns, CSV, and a JSON document a line; non-finite numbers by their names."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from server.telemetry.tables import Table

NAMES: Final = (b'"NaN"', b'"Infinity"', b'"-Infinity"')


def json_array(column: NDArray[Any]) -> bytes:
    """A column as a JSON array; float32 values in their shortest decimal form."""
    text = orjson.dumps(np.ascontiguousarray(column), option=orjson.OPT_SERIALIZE_NUMPY)
    if column.dtype.kind != "f" or (finite := np.isfinite(column)).all():
        return text
    # It writes null for each number that JSON has none for.
    pieces = text.split(b"null")
    odd = column[~finite]
    kinds = np.where(np.isnan(odd), 0, np.where(odd > 0, 1, 2)).tolist()
    rest = zip(kinds, pieces[1:], strict=True)
    return pieces[0] + b"".join(NAMES[kind] + piece for kind, piece in rest)


def json_columns(table: Table) -> Iterator[bytes]:
    """A table as the members of a JSON object, without its braces."""
    for index, (name, column) in enumerate(table.items()):
        yield (b"," if index else b"") + orjson.dumps(name) + b":" + json_array(column)


def ndjson(tables: Iterable[Table]) -> Iterator[bytes]:
    """A JSON object a point."""
    for table in tables:
        if not len(table["step"]):
            continue
        cells = [json_array(column)[1:-1].split(b",") for column in table.values()]
        names = [orjson.dumps(name).replace(b"%", b"%%") for name in table]
        line = b"{" + b",".join(name + b":%b" for name in names) + b"}\n"
        yield b"".join(line % row for row in zip(*cells, strict=True))


def csv(tables: Iterable[Table]) -> Iterator[bytes]:
    """A line a point, behind one with the names; nan, inf, true and false as pandas reads them."""
    from pyarrow import csv as writer

    from server.telemetry.arrow import Sink, batch_of

    options = writer.WriteOptions(include_header=False)
    for index, table in enumerate(tables):
        sink = Sink()
        writer.write_csv(batch_of(table), sink, options)
        head = ",".join(table).encode() + b"\n" if index == 0 else b""
        yield head + sink.taken()
