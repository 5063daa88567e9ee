"""One function per endpoint: what to send, and how to read the answer; no input or output."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

from ampclient.connection import API_PREFIX
from ampclient.views import (
    JobEvent,
    JobView,
    Kind,
    Policy,
    ServerVersion,
    Validated,
    View,
    Worker,
)

if TYPE_CHECKING:
    from ampcore.series import StepBlock

T = TypeVar("T")
V = TypeVar("V", bound=View)

JOBS_PER_PAGE: Final = 100
EVENTS_PER_PAGE: Final = 1_000
STEPS_PER_PAGE: Final = 50_000  # some megabytes of JSON

Params = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and the function that reads its answer's JSON document."""

    method: str
    path: str
    read: Callable[[Any], T]
    params: Params = ()
    body: Any = None
    idempotent: bool = True
    """Sending it twice does what sending it once does."""

    @property
    def url_path(self) -> str:
        """The path from the server's root."""
        return f"{API_PREFIX}{self.path}"


@dataclass(frozen=True)
class JobsPage:
    """Some jobs, newest first, and where the list goes on."""

    jobs: list[JobView]
    next_cursor: str | None


@dataclass(frozen=True)
class StepsPage:
    """Consecutive steps (None: none were stored yet), and where to go on reading."""

    block: "StepBlock | None"
    next: int | None
    more: bool


@dataclass(frozen=True)
class EventsPage:
    """Events in order, and where to go on reading."""

    events: list[JobEvent]
    next: int | None
    more: bool


def submit_job(spec: Mapping[str, Any]) -> Call[JobView]:
    """Queue a job; sent twice it would queue two."""
    return Call("POST", "/jobs", JobView.from_json, body=spec, idempotent=False)


def validate_job(spec: Mapping[str, Any]) -> Call[Validated]:
    """Check a spec, queue nothing."""
    return Call("POST", "/jobs/validate", Validated.from_json, body=spec)


def get_job(job_id: str) -> Call[JobView]:
    """One job as it is now."""
    return Call("GET", f"/jobs/{_segment(job_id)}", JobView.from_json)


def cancel_job(job_id: str) -> Call[JobView]:
    """Ask for a job's end."""
    return Call("POST", f"/jobs/{_segment(job_id)}/cancel", JobView.from_json)


def list_jobs(states: Sequence[str], *, limit: int, cursor: str | None) -> Call[JobsPage]:
    """A page of jobs, of the given states if there are any."""
    params = [("state", state) for state in states] + _params(limit=limit, cursor=cursor)
    return Call("GET", "/jobs", _jobs_page, params)


def get_steps(
    job_id: str,
    *,
    start: int | None,
    end: int | None,
    after: int | None,
    columns: Sequence[str] | None,
) -> Call[StepsPage]:
    """A page of per-step values."""
    names = ",".join(columns) if columns is not None else None
    params = _params(start=start, end=end, after=after, columns=names, limit=STEPS_PER_PAGE)
    return Call("GET", f"/jobs/{_segment(job_id)}/steps", _steps_page, params)


def get_events(job_id: str, *, after: int | None) -> Call[EventsPage]:
    """A page of the ledger."""
    params = _params(after=after, limit=EVENTS_PER_PAGE)
    return Call("GET", f"/jobs/{_segment(job_id)}/events", _events_page, params)


def list_workers() -> Call[list[Worker]]:
    """Every worker that the server knows."""
    return Call("GET", "/workers", _items(Worker))


def list_models() -> Call[list[Kind]]:
    """The kinds of model that a spec can name."""
    return Call("GET", "/models", _items(Kind))


def list_datasets() -> Call[list[Kind]]:
    """The kinds of data that a spec can name."""
    return Call("GET", "/datasets", _items(Kind))


def list_policies() -> Call[list[Policy]]:
    """The precision policies that a spec can name."""
    return Call("GET", "/policies", _items(Policy))


def get_version() -> Call[ServerVersion]:
    """What runs there."""
    return Call("GET", "/version", ServerVersion.from_json)


def _segment(text: str) -> str:
    return quote(text, safe="")


def _params(**values: str | int | None) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in values.items() if value is not None]


def _items(view: type[V]) -> Callable[[Any], list[V]]:
    return lambda document: [view.from_json(item) for item in document["items"]]


def _jobs_page(document: Any) -> JobsPage:
    return JobsPage(_items(JobView)(document), document["next_cursor"])


def _events_page(document: Any) -> EventsPage:
    return EventsPage(_items(JobEvent)(document), document["next"], document["more"])


def _steps_page(document: Any) -> StepsPage:
    from ampcore.series import StepBlock
    from ampcore.series.jsonable import column_from_json

    data = {name: column_from_json(values) for name, values in document["data"].items()}
    steps = data.pop("step")
    if steps and steps[-1] - steps[0] + 1 != len(steps):
        raise ValueError(f"steps {steps[0]} to {steps[-1]} with gaps or repeats")
    block = StepBlock(steps[0], data) if steps else None
    return StepsPage(block, document["next"], document["more"])
