"""A run of another tool: its scalars, made into the rows of a tracked run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from ampclient.tracking.row_values import MAX_EXTRAS
from ampspec.jobs.tracked import COLUMN_NAME
from ampspec.telemetry import COLUMN_DTYPES

MAX_NAME: Final = 100
COMMON_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "loss": (
        *("loss", "train/loss", "train_loss", "loss/train", "training_loss", "training/loss"),
        *("batch_loss", "train/loss_step", "train_loss_step", "epoch_loss", "train/loss_epoch"),
        "train/train_loss",
    ),
    "learning_rate": (
        *("learning_rate", "train/learning_rate", "lr", "train/lr", "epoch_learning_rate"),
        *("epoch_lr", "lr-adam", "lr-adamw", "lr-sgd", "learning_rate/train"),
    ),
    "grad_norm": ("grad_norm", "train/grad_norm", "gradient_norm", "train/gradient_norm"),
    "loss_scale": ("loss_scale", "train/loss_scale", "scale", "grad_scale", "amp/scale"),
}
"""What other tools call the columns of every run, the likeliest first."""


class Point(NamedTuple):
    """A value that a program has logged."""

    step: int
    time_s: float
    """When it was logged, in seconds of the Unix epoch."""
    value: float


@dataclass
class ForeignRun:
    """A run of another tool.

    Attributes:
        name: Its name.
        origin: Where it comes from, for the label `imported_from` and messages.
        scalars: Its points by the name that the tool has for them.
        state: How it has ended.
        config: Its parameters.
        labels: Its tags.
        skipped: What it has besides scalars, and how often.
    """

    name: str
    origin: str
    scalars: dict[str, list[Point]] = field(default_factory=dict)
    state: Literal["succeeded", "failed", "cancelled"] = "succeeded"
    config: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)

    def columns(self) -> dict[str, str]:
        """The column that each scalar becomes, by the scalar's name; at most 48 further ones."""
        columns: dict[str, str] = {}
        for column, names in COMMON_NAMES.items():
            by_lower = {name.lower(): name for name in self.scalars}
            name = next((by_lower[name] for name in names if name in by_lower), None)
            if name is not None:
                columns[name] = column
        taken = {*columns.values(), *COLUMN_DTYPES, "step", "logged_step"}
        further = [name for name in self.scalars if name not in columns]
        for name in further[:MAX_EXTRAS]:
            columns[name] = _free_name(name, taken)
            taken.add(columns[name])
        return columns

    def left_out(self) -> dict[str, int]:
        """What a tracked run cannot have, and how often there is any of it."""
        columns = self.columns()
        scalars = sum(len(points) for name, points in self.scalars.items() if name not in columns)
        return {**self.skipped, **({f"scalars beyond {MAX_EXTRAS}": scalars} if scalars else {})}

    def rows(self) -> Iterator[tuple[int, dict[str, float]]]:
        """The steps, ascending, with their values by column.

        A value that was logged again at a step replaces the one before. `step_time_s` is the time
        since the row before, also if steps between them were not logged.
        """
        columns = self.columns()
        by_step: dict[int, dict[str, float]] = {}
        times: dict[int, float] = {}
        for name, column in columns.items():
            for point in self.scalars[name]:
                by_step.setdefault(point.step, {})[column] = point.value
                times[point.step] = max(point.time_s, times.get(point.step, 0.0))
        last: int | None = None
        for step in sorted(by_step):
            row = by_step[step]
            if last is not None:
                row["step_time_s"] = max(0.0, times[step] - times[last])
            yield step, row
            last = step


def _free_name(name: str, taken: set[str]) -> str:
    """A name that a column may have, and none that is taken."""
    base = re.sub(r"[^A-Za-z0-9_./-]+", "_", name).lstrip("./-")[:MAX_NAME] or "value"
    if base in taken or not COLUMN_NAME.fullmatch(base):
        base = f"imported_{base}"[: MAX_NAME - 4]
    free, number = base, 1
    while free in taken:
        number += 1
        free = f"{base}_{number}"
    return free
