"""The forms in which steps can be asked for, and how each is written."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from server.telemetry.tables import Table

JSON: Final = "json"


@dataclass(frozen=True)
class Form:
    """Its media type, and the name of a file of it."""

    media_type: str
    name: str


class FormName(StrEnum):
    """What `format` may say."""

    JSON = "json"
    ARROW = "arrow"
    CSV = "csv"
    NDJSON = "ndjson"
    PARQUET = "parquet"
    TENSORBOARD = "tensorboard"


FORMS: Final = {
    "json": Form("application/json", "{name}-{id}.json"),
    "arrow": Form("application/vnd.apache.arrow.stream", "{name}-{id}.arrows"),
    "csv": Form("text/csv", "{name}-{id}.csv"),
    "ndjson": Form("application/x-ndjson", "{name}-{id}.ndjson"),
    "parquet": Form("application/vnd.apache.parquet", "{name}-{id}.parquet"),
    # TensorBoard knows its files by this name.
    "tensorboard": Form("application/vnd.tensorboard.events", "events.out.tfevents.{time}.{id}"),
}


def writer(form: str, *, began_at: float) -> Callable[[Iterable[Table]], Iterator[bytes]]:
    """What writes tables in a form that is not JSON.

    `began_at`, in Unix seconds, is when the job began: a form may tell times of day.
    """
    # Each loads what it needs, pyarrow above all, once somebody asks for it.
    if form == FormName.TENSORBOARD:
        from server.telemetry.tensorboard import event_file

        return lambda tables: event_file(tables, began_at)
    if form in (FormName.ARROW, FormName.PARQUET):
        from server.telemetry import arrow

        return arrow.arrow_stream if form == FormName.ARROW else arrow.parquet
    from server.telemetry import text

    return text.csv if form == FormName.CSV else text.ndjson
