"""Steps as JSON, NDJSON and CSV. Non-finite numbers are strings in JSON, nan and inf in CSV.

An empty cell is null in JSON, and has no characters in CSV.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from ampspec.telemetry.steps.missing import is_missing
from server.http.responses import dumps
from server.telemetry.step_table import StepTable

if TYPE_CHECKING:
    from server.telemetry.steps_reader import StepsResult
    from store.telemetry.key_steps import KeyStepsInRange

NON_FINITE_NAMES: Final = (b'"NaN"', b'"Infinity"', b'"-Infinity"', b"null")


def json_array(column: NDArray[Any]) -> bytes:
    """A column as a JSON array; float32 values in their shortest decimal form.

    Non-finite numbers are strings, and an empty cell is null.
    """
    text = orjson.dumps(np.ascontiguousarray(column), option=orjson.OPT_SERIALIZE_NUMPY)
    if column.dtype.kind != "f" or (finite := np.isfinite(column)).all():
        return text
    # orjson writes null for a non-finite number.
    pieces = text.split(b"null")
    odd = column[~finite]
    kinds = np.where(np.isnan(odd), 0, np.where(odd > 0, 1, 2))
    kinds[is_missing(odd)] = 3
    names_and_pieces = zip(kinds.tolist(), pieces[1:], strict=True)
    return pieces[0] + b"".join(NON_FINITE_NAMES[kind] + piece for kind, piece in names_and_pieces)


def json_columns(table: StepTable) -> Iterator[bytes]:
    """A table as the members of a JSON object, without its braces."""
    for index, (name, column) in enumerate(table.items()):
        yield (b"," if index else b"") + orjson.dumps(name) + b":" + json_array(column)


def ndjson(tables: Iterable[StepTable]) -> Iterator[bytes]:
    """One JSON object per line and row."""
    for table in tables:
        if not len(table["step"]):
            continue
        cells = [json_array(column)[1:-1].split(b",") for column in table.values()]
        names = [orjson.dumps(name).replace(b"%", b"%%") for name in table]
        line = b"{" + b",".join(name + b":%b" for name in names) + b"}\n"
        yield b"".join(line % row for row in zip(*cells, strict=True))


def csv(tables: Iterable[StepTable]) -> Iterator[bytes]:
    """A header, then one line per row; nan, inf, true and false as pandas reads them.

    An empty cell has no characters.
    """
    from pyarrow import csv as writer

    from server.telemetry.arrow import ChunkBuffer, to_record_batch

    options = writer.WriteOptions(include_header=False)
    for index, table in enumerate(tables):
        sink = ChunkBuffer()
        writer.write_csv(to_record_batch(table, with_nulls=True), sink, options)
        head = ",".join(table).encode() + b"\n" if index == 0 else b""
        yield head + sink.taken()


def json_document(reading: "StepsResult") -> Iterator[bytes]:
    """The body of GET /jobs/{job_id}/steps, as `ampspec.api.job.steps.Steps` describes it."""
    yield b'{"data":{'
    yield from json_columns(reading.table)
    yield b"}"
    if reading.key_steps is not None:
        yield from _key_steps_json(reading.key_steps)
    paging = {
        "steps_per_point": reading.steps_per_point,
        "next": reading.last,
        "more": reading.more,
        "attempts": [vars(attempt_range) for attempt_range in reading.ranges],
    }
    yield b"," + dumps(paging)[1:].encode()


def skipped_steps_json(key_steps: "KeyStepsInRange") -> bytes:
    """The skipped steps as another member of a JSON object."""
    skipped = json_array(key_steps.points.skipped)
    return b',"skipped_steps":{"total":%d,"steps":%b}' % (key_steps.skipped, skipped)


def _key_steps_json(key_steps: "KeyStepsInRange") -> Iterator[bytes]:
    changes = key_steps.points.changes
    yield skipped_steps_json(key_steps)
    yield b',"scale_changes":{"total":%d,' % key_steps.changes
    yield from json_columns(
        {
            "step": changes.steps,
            "before": changes.old_scales.astype(np.float32),
            "after": changes.new_scales.astype(np.float32),
        }
    )
    yield b',"column":' + dumps(changes.columns.tolist()).encode() + b"}"
