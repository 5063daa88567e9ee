"""What the server says, as frozen values; fields of a newer server are left out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from ampcore.spec import State

Reader = Callable[[Any], Any]


def number(value: Any) -> float:
    """A number as the API writes it: NaN and the infinities are strings; null is unknown, NaN."""
    return float("nan") if value is None else float(value)


def count(value: Any) -> int:
    """A count; null is none yet."""
    return 0 if value is None else int(value)


def restored(value: Any) -> Any:
    """`value` with the names of the non-finite numbers in it turned back into numbers."""
    match value:
        case "NaN" | "Infinity" | "-Infinity":
            return float(value)
        case dict():
            return {key: restored(item) for key, item in value.items()}
        case list():
            return [restored(item) for item in value]
    return value


def optional(reader: Reader) -> Reader:
    """The same reader, with null read as None."""
    return lambda value: None if value is None else reader(value)


@dataclass(frozen=True, kw_only=True)
class View:
    """A part of an answer: typed fields, and the JSON document that they were read from."""

    document: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """How to read those fields that are not plain JSON values."""
        return {}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read the document; KeyError, TypeError or ValueError when it is not what it should be."""
        readers = cls.readers()
        names = [f.name for f in fields(cls) if f.init and f.name in document]
        values = {name: readers.get(name, _same)(document[name]) for name in names}
        return cls(document=document, **values)

    def to_json(self) -> dict[str, Any]:
        """The document as the server sent it: valid JSON, non-finite numbers as strings."""
        return dict(self.document)


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True)
class Latest(View):
    """Values of the last step that is stored; `skipped` counts all skipped steps so far."""

    loss: float
    loss_scale: float
    grad_norm: float
    learning_rate: float
    examples_per_s: float
    skipped: int

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """Every value but the count may be non-finite."""
        names = ("loss", "loss_scale", "grad_norm", "learning_rate", "examples_per_s")
        return {**dict.fromkeys(names, number), "skipped": count}


@dataclass(frozen=True, kw_only=True)
class Summary(View):
    """How a job that succeeded ended; `val_*` are None without validation data.

    `examples_per_s` leaves the first block out, which holds the compilation, if there are more.
    """

    steps: int
    skipped: int
    final_loss: float
    final_loss_scale: float
    val_loss: float | None
    val_accuracy: float | None
    examples_per_s: float
    parameters: int
    train_s: float
    weights_digest: str
    model_file: str | None
    peak_memory_bytes: int | None = None
    policy: str | None = None
    engine: str | None = None
    scale_health: str | None = None

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """Every measured value may be non-finite."""
        measured = ("final_loss", "final_loss_scale", "examples_per_s", "train_s")
        return {
            **dict.fromkeys(measured, number),
            "skipped": count,
            **dict.fromkeys(("val_loss", "val_accuracy"), optional(number)),
        }


@dataclass(frozen=True, kw_only=True)
class JobView(View):
    """A job as it was when the server answered. Times are in UTC."""

    id: str
    name: str
    state: State
    reason: str | None
    message: str | None
    attempt: int
    step: int
    total_steps: int | None
    progress: float | None
    policy: str
    model: str
    labels: dict[str, str]
    worker_id: str | None
    latest: Latest | None
    summary: Summary | None
    spec: dict[str, Any]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime

    @property
    def skipped(self) -> int:
        """Steps skipped so far."""
        known = self.summary or self.latest
        return known.skipped if known is not None else 0

    @property
    def examples_per_s(self) -> float | None:
        """The mean of the whole training once it succeeded, till then that of the last block."""
        known = self.summary or self.latest
        return known.examples_per_s if known is not None else None

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The parts, the state and the times."""
        return {
            "state": State,
            "latest": optional(Latest.from_json),
            "summary": optional(Summary.from_json),
            "created_at": datetime.fromisoformat,
            "started_at": optional(datetime.fromisoformat),
            "finished_at": optional(datetime.fromisoformat),
            "updated_at": datetime.fromisoformat,
        }


@dataclass(frozen=True, kw_only=True)
class JobEvent(View):
    """One entry of a job's ledger; `seq` orders it among everything the job reported."""

    seq: int
    type: str
    step: int | None
    attempt: int
    created_at: datetime
    data: dict[str, Any]

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The time, and numbers that may be non-finite."""
        return {"created_at": datetime.fromisoformat, "data": restored}


@dataclass(frozen=True, kw_only=True)
class Worker(View):
    """A worker process: where it runs, what it has, which jobs it trains."""

    id: str
    hostname: str
    pid: int
    slots: int
    state: str
    version: str
    hardware: dict[str, Any] | None
    jobs: list[str]
    started_at: datetime
    last_seen_at: datetime

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The times."""
        return dict.fromkeys(("started_at", "last_seen_at"), datetime.fromisoformat)


@dataclass(frozen=True, kw_only=True)
class Finding(View):
    """Something worth knowing about a valid spec; `severity` is info, warning or error."""

    code: str
    severity: str
    pointer: str
    message: str
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Validated(View):
    """A spec that the server would take: normalised, and what its preflight says of it.

    `figures` is None, and `layers` empty, where they are known only when the job starts.
    """

    spec: dict[str, Any]
    findings: list[Finding]
    figures: dict[str, Any] | None = None
    layers: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The findings."""
        return {"findings": lambda findings: [Finding.from_json(one) for one in findings]}


@dataclass(frozen=True, kw_only=True)
class Kind(View):
    """A kind of model or data that a spec can name, with the JSON schema of its fields."""

    kind: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Policy(View):
    """A precision policy that a spec can name."""

    name: str
    compute_dtype: str | None
    variable_dtype: str | None
    loss_scale: Any


@dataclass(frozen=True, kw_only=True)
class ServerVersion(View):
    """The version of the server, of its API, and of its database schema if it tells."""

    version: str
    api: str
    schema: str | None = None
