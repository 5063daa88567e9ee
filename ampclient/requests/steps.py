"""The steps of a job: which of them are asked for, and in which form."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ampclient.requests.request import JsonRequest, Params, Request, job_path, params
from ampclient.step_sample import StepSample

ARROW: Final = "arrow"
EXPORT_FORMATS: Final = (ARROW, "csv", "ndjson", "parquet", "tensorboard")
"""The forms in which a server sends a whole range, however long it is."""


@dataclass(frozen=True)
class StepRange:
    """Which steps: from `start` to before `end`, after `after`; which columns; of which attempt."""

    start: int | None = None
    end: int | None = None
    after: int | None = None
    columns: Sequence[str] | None = None
    attempt: int | None = None

    def __post_init__(self) -> None:
        if self.columns is not None and not set(self.columns) - {"step"}:
            raise ValueError("expected at least one column beside 'step', received none")

    @property
    def first(self) -> int:
        """The first step that may be told."""
        return max(self.start or 0, 0 if self.after is None else self.after + 1)

    @property
    def params(self) -> Params:
        """It in the words of the query string."""
        return params(
            start=self.start,
            end=self.end,
            after=self.after,
            columns=None if self.columns is None else ",".join(self.columns),
            attempt=self.attempt,
        )


def stream_steps(
    job_id: str, wanted: StepRange, export_format: str, *, max_points: int | None = None
) -> Request:
    """All of a range, sent while it is read. `export_format` is one of EXPORT_FORMATS."""
    if export_format not in EXPORT_FORMATS:
        expected = ", ".join(EXPORT_FORMATS)
        raise ValueError(f"expected a format among {expected}; received {export_format!r}")
    return Request(
        method="GET",
        path=job_path(job_id, "steps"),
        params=[*wanted.params, *params(format=export_format, max_points=max_points)],
        headers=[("Accept", "*/*")],
    )


def sample_steps(job_id: str, wanted: StepRange, max_points: int) -> JsonRequest[StepSample]:
    """A range in few points."""
    return JsonRequest(
        method="GET",
        path=job_path(job_id, "steps"),
        params=[*wanted.params, *params(max_points=max_points)],
        read=StepSample.from_json,
    )
