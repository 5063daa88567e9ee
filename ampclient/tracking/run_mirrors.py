"""The mirrors of a run that goes on."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ampclient.mirrors.live import LiveMirror
from ampclient.mirrors.mirror import (
    Mirror,
    MirrorEnd,
    MirrorRow,
    MirrorStart,
    block_rows,
    flat_params,
)
from ampclient.tracking.entries import PendingEntry, event_entry
from ampclient.tracking.row_values import UnusableValue, to_number
from ampclient.tracking.rows import RowBuffer
from ampspec.telemetry import StepBlock


class RunMirrors:
    """Passes the blocks of a run to its mirrors.

    Args:
        mirrors: Where they go.
        spec: The fields of TrackedSpec.
    """

    def __init__(self, mirrors: Sequence[Mirror], spec: Mapping[str, Any]) -> None:
        self._mirrors, self._spec = mirrors, spec
        self._live: list[LiveMirror] = []

    def begin(self, rows: RowBuffer, put: Callable[[PendingEntry], object]) -> None:
        """Create the run in each mirror, in the background, and take the blocks of the buffer."""
        settings = {
            name: value
            for name, value in self._spec.items()
            if name in ("config", "precision", "model")
        }
        start = MirrorStart(
            self._spec["name"],
            flat_params(settings.pop("config", {})) | flat_params(settings),
            self._spec.get("labels", {}),
            time.time(),
        )

        def report(text: str) -> None:
            put(event_entry("warning", {"code": "mirror_incomplete", "message": text}))

        self._live = [LiveMirror(mirror, start, report) for mirror in self._mirrors]

        def put_block(block: StepBlock, times: Sequence[float]) -> None:
            self._put([*block_rows(block, times, has_scale=rows.knows_scale)])

        rows.on_block = put_block

    def put_evaluation(self, step: int, data: Mapping[str, Any]) -> None:
        """Add the numbers of an evaluation to a step."""
        values = {}
        for name, value in data.items():
            try:
                values[name] = to_number(value)
            except UnusableValue:
                continue
        values.pop("epoch", None)
        self._put([MirrorRow(step, time.time(), values)])

    def end(
        self, end: Mapping[str, Any], run_id: str | None, url: str | None, timeout_s: float
    ) -> None:
        """End the run in each mirror, after all of its rows."""
        results = {
            name: float(value)
            for name, value in end["summary"].items()
            if isinstance(value, int | float | str)
        }
        mirror_end = MirrorEnd(str(end["state"]), time.time(), results, run_id, url)
        for live in self._live:
            live.close(mirror_end, timeout_s)

    def _put(self, rows: Sequence[MirrorRow]) -> None:
        for live in self._live:
            live.put(rows)
