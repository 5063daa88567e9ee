"""A downsampled range of steps, with its skipped steps and loss-scale changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from ampclient._display import notebook_html
from ampspec.api.job.steps import AttemptRange

if TYPE_CHECKING:
    from ampspec.telemetry.steps.block import Column

SHOWN: Final = 5
"""How many points a notebook shows."""


@dataclass(frozen=True, eq=False)
class SkippedSteps:
    """The number of skipped steps, and their numbers: all, or the first if there are many."""

    total: int
    steps: "Column"


@dataclass(frozen=True, eq=False)
class ScaleChanges:
    """The number of loss-scale changes, and the changes: all, or the first if there are many.

    The scale changes from `before` to `after` at `step`, the first step with the new scale;
    `column` is "loss_scale", or one of several loss-scale columns.
    """

    total: int
    step: "Column"
    before: "Column"
    after: "Column"
    column: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class StepSample:
    """Downsampled steps: `sample["loss.mean"]` is an array with one value per point.

    A point summarises `steps_per_point` steps: the first `step`, the `count` of stored steps, the
    number `skipped`, and for each other column `loss.min`, `.max`, `.first`, `.last` and `.mean`.
    If `steps_per_point` is 1, every step is a point and the columns are those of a StepBlock.
    """

    columns: "Mapping[str, Column]"
    steps_per_point: int
    skipped_steps: SkippedSteps
    scale_changes: ScaleChanges
    attempts: tuple[AttemptRange, ...]
    """The steps of each attempt, of the whole job."""

    def __len__(self) -> int:
        return len(self["step"])

    def __getitem__(self, name: str) -> "Column":
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    @property
    def names(self) -> tuple[str, ...]:
        """The columns other than `step`."""
        return tuple(name for name in self.columns if name != "step")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Parse a response. Raises KeyError, TypeError or ValueError if it is invalid."""
        return cls(
            columns_in(document["data"]),
            document["steps_per_point"],
            skipped_in(document["skipped_steps"]),
            _changes(document["scale_changes"]),
            tuple(AttemptRange.from_json(attempt) for attempt in document["attempts"]),
        )

    def _repr_html_(self) -> str:
        """A summary and the first points."""
        rows = zip(*(self.columns[name][:SHOWN].tolist() for name in self.columns), strict=True)
        note = (
            f"{len(self)} points of {self.steps_per_point} steps each; "
            f"{self.skipped_steps.total} steps skipped, "
            f"loss scale changed {self.scale_changes.total} times"
        )
        return notebook_html.table(self.columns, rows, note)


def columns_in(data: Mapping[str, Any]) -> "dict[str, Column]":
    """The columns of points or of steps, as arrays."""
    import numpy as np

    from ampspec.telemetry import COLUMN_DTYPES
    from ampspec.telemetry.json_values import column_from_json

    lists = {name: column_from_json(values) for name, values in data.items()}
    if "count" not in lists:
        dtypes = {"step": np.int64, **COLUMN_DTYPES}
        return {name: np.asarray(v, dtypes.get(name, np.float32)) for name, v in lists.items()}
    dtypes = {**dict.fromkeys(("step", "count", "skipped"), np.int64), "elapsed_s": np.float64}
    arrays = {name: np.asarray(values, dtypes.get(name)) for name, values in lists.items()}
    return {
        name: a.astype(np.float32) if a.dtype.kind == "f" and name not in dtypes else a
        for name, a in arrays.items()
    }


def skipped_in(document: Mapping[str, Any]) -> SkippedSteps:
    """Parse the skipped steps."""
    import numpy as np

    return SkippedSteps(document["total"], np.asarray(document["steps"], np.int64))


def _changes(document: Mapping[str, Any]) -> ScaleChanges:
    import numpy as np

    from ampspec.telemetry.json_values import column_from_json

    old_scale, new_scale = (
        np.asarray(column_from_json(document[name]), np.float32) for name in ("before", "after")
    )
    step = np.asarray(document["step"], np.int64)
    return ScaleChanges(document["total"], step, old_scale, new_scale, tuple(document["column"]))
