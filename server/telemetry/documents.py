"""What was read of a job's steps as one JSON document, written while it is sent."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from server.http.responses import dumps
from server.telemetry.reading import Reading
from server.telemetry.text import json_array, json_columns

if TYPE_CHECKING:
    from store.points import Found


def json_document(reading: Reading) -> Iterator[bytes]:
    """The answer to a read of steps; `Steps` in server.views describes it."""
    yield b'{"data":{'
    yield from json_columns(reading.table)
    yield b"}"
    if reading.found is not None:
        yield from _points(reading.found)
    rest = {
        "steps_per_point": reading.steps_per_point,
        "next": reading.last,
        "more": reading.more,
        "attempts": [vars(stretch) for stretch in reading.seen],
    }
    yield b"," + dumps(rest)[1:].encode()


def skipped_json(found: "Found") -> bytes:
    """The skipped steps as a further member of a JSON object."""
    skipped = json_array(found.points.skipped)
    return b',"skipped_steps":{"total":%d,"steps":%b}' % (found.skipped, skipped)


def _points(found: "Found") -> Iterator[bytes]:
    changes = found.points.changes
    yield skipped_json(found)
    yield b',"scale_changes":{"total":%d,' % found.changes
    yield from json_columns(
        {
            "step": changes.steps,
            "before": changes.before.astype(np.float32),
            "after": changes.after.astype(np.float32),
        }
    )
    yield b',"column":' + dumps(changes.columns.tolist()).encode() + b"}"
