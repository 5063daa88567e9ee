"""The output formats of steps: media type, file name and writer of each."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from server.telemetry.step_table import StepTable
from store.telemetry.evaluations import EvaluationsIn, no_evaluations

JSON: Final = "json"


@dataclass(frozen=True)
class StepsFormat:
    """An output format: its media type, and the extension of its files."""

    media_type: str
    name: str


class FormatName(StrEnum):
    """The values of the parameter `format`."""

    JSON = "json"
    ARROW = "arrow"
    CSV = "csv"
    NDJSON = "ndjson"
    PARQUET = "parquet"
    TENSORBOARD = "tensorboard"


FORMATS: Final = {
    "json": StepsFormat("application/json", "{name}-{id}.json"),
    "arrow": StepsFormat("application/vnd.apache.arrow.stream", "{name}-{id}.arrows"),
    "csv": StepsFormat("text/csv", "{name}-{id}.csv"),
    "ndjson": StepsFormat("application/x-ndjson", "{name}-{id}.ndjson"),
    "parquet": StepsFormat("application/vnd.apache.parquet", "{name}-{id}.parquet"),
    # TensorBoard recognises its files by this name.
    "tensorboard": StepsFormat(
        "application/vnd.tensorboard.events", "events.out.tfevents.{time}.{id}"
    ),
}


def writer(
    form: str, *, began_at: float = 0.0, evaluations_in: EvaluationsIn = no_evaluations
) -> Callable[[Iterable[StepTable]], Iterator[bytes]]:
    """The function that encodes tables in a format other than JSON.

    `began_at` is the Unix time at which the job started, for formats with wall-clock times;
    `evaluations_in` returns the evaluations, for formats that also contain those.
    """
    # Imported when needed: pyarrow above all takes time and memory.
    if form == FormatName.TENSORBOARD:
        from server.telemetry.tensorboard import event_file

        return lambda tables: event_file(tables, began_at, evaluations_in)
    if form in (FormatName.ARROW, FormatName.PARQUET):
        from server.telemetry import arrow

        return arrow.arrow_stream if form == FormatName.ARROW else arrow.parquet
    from server.telemetry import text_formats

    return text_formats.csv if form == FormatName.CSV else text_formats.ndjson
