"""Requests for the steps of a job: the range, the columns and the format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ampclient._endpoints.request import JsonRequest, Params, Request, job_path, params
from ampclient._telemetry.step_sample import StepSample

ARROW: Final = "arrow"
EXPORT_FORMATS: Final = (ARROW, "csv", "ndjson", "parquet", "tensorboard")
"""The formats in which the server streams a range of any length."""


@dataclass(frozen=True)
class StepRange:
    """A range of steps, `start` ≤ step < `end` and `after_step` < step; its columns and attempt."""

    start: int | None = None
    end: int | None = None
    after_step: int | None = None
    columns: Sequence[str] | None = None
    attempt: int | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and not set(self.columns) - {"step"}:
            raise ValueError("expected at least one column besides 'step', received none")

    @property
    def first(self) -> int:
        """The first step that the range can contain."""
        return max(self.start or 0, 0 if self.after_step is None else self.after_step + 1)

    @property
    def params(self) -> Params:
        """The range as query parameters."""
        return params(
            start=self.start,
            end=self.end,
            after=self.after_step,
            columns=None if self.columns is None else ",".join(self.columns),
            attempt=self.attempt,
        )


def stream_steps(
    job_id: str, step_range: StepRange, export_format: str, *, max_points: int | None = None
) -> Request:
    """A whole range as a stream. `export_format` is one of EXPORT_FORMATS."""
    if export_format not in EXPORT_FORMATS:
        expected = ", ".join(EXPORT_FORMATS)
        raise ValueError(f"expected a format among {expected}; received {export_format!r}")
    return Request(
        method="GET",
        path=job_path(job_id, "steps"),
        params=[*step_range.params, *params(format=export_format, max_points=max_points)],
        headers=[("Accept", "*/*")],
    )


def sample_steps(job_id: str, step_range: StepRange, max_points: int) -> JsonRequest[StepSample]:
    """A range downsampled to at most `max_points`."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "steps"),
        params=[*step_range.params, *params(max_points=max_points)],
        read=StepSample.from_json,
    )
