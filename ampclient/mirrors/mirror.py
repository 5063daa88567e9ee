"""What a mirror takes: how a run begins, its rows and its end."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, Protocol

from ampspec.telemetry import StepBlock
from ampspec.telemetry.steps.missing import is_missing

NOT_MIRRORED: Final = "pictures, files, the log, and events other than evaluations"
"""What no mirror has."""


@dataclass(frozen=True)
class MirrorStart:
    """How a run begins in a mirror.

    Attributes:
        name: Its name.
        params: Its settings, by dotted name.
        labels: Its labels.
        started_at_s: When it began, in seconds of the Unix epoch.
    """

    name: str
    params: Mapping[str, Any]
    labels: Mapping[str, str]
    started_at_s: float


class MirrorRow(NamedTuple):
    """The values of a step."""

    step: int
    time_s: float
    """When they were logged, in seconds of the Unix epoch."""
    values: Mapping[str, float]


@dataclass(frozen=True)
class MirrorEnd:
    """How a run ends in a mirror.

    Attributes:
        state: `succeeded`, `failed`, `cancelled`, or `running` if it goes on.
        ended_at_s: When, in seconds of the Unix epoch.
        results: Its results.
        run_id: Its id at the server; None if it has none.
        url: Its page in the dashboard.
    """

    state: str
    ended_at_s: float
    results: Mapping[str, float] = field(default_factory=dict)
    run_id: str | None = None
    url: str | None = None


class Mirror(Protocol):
    """Writes one run to another tool; `begin`, `write` and `end` are called by one thread.

    Any of them may raise any error: it ends the mirror, and never the training.
    """

    @property
    def place(self) -> str:
        """Where the run is, for messages."""

    @property
    def command(self) -> str:
        """The options of `ampctl run mirror` that write to the same place."""

    def begin(self, start: MirrorStart) -> None:
        """Create the run."""

    def write(self, rows: Sequence[MirrorRow]) -> None:
        """Add rows; their steps ascend, but for evaluations."""

    def end(self, end: MirrorEnd) -> None:
        """End the run."""


def need_package(name: str, tool: str, extra: str) -> None:
    """Raise ModuleNotFoundError, with the remedy, if a package is not installed."""
    if find_spec(name) is None:
        raise ModuleNotFoundError(
            f'a mirror to {tool} needs its package: pip install "ampcore[{extra}]"'
        )


def flat_params(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted names; a list is JSON, and None is left out."""
    params: dict[str, Any] = {}
    for name, value in settings.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            params |= flat_params(value, f"{key}.")
        elif isinstance(value, list | tuple):
            params[key] = json.dumps(value)
        elif value is not None:
            params[key] = value
    return params


def block_rows(block: StepBlock, times: Sequence[float], *, has_scale: bool) -> Iterator[MirrorRow]:
    """The rows of a block without empty cells, and without columns that say nothing.

    Args:
        block: The steps.
        times: When each was logged.
        has_scale: Whether anything is known of the loss scale; else its columns are left out.
    """
    silent = set() if has_scale else {"loss_scale", "skipped"}
    columns = {}
    for name in block.names:
        values = block[name]
        if name in silent or (name == "examples" and not values.any()):
            continue
        columns[name] = (values.tolist(), is_missing(values).tolist())
    for place, step in enumerate(block["step"].tolist()):
        row = {
            name: float(values[place])
            for name, (values, missing) in columns.items()
            if not missing[place]
        }
        yield MirrorRow(step, times[place], row)
