"""Convert what a program logs into the numbers of a row, and count what is no number."""

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ampclient.tracking.entries import PendingEntry, event_entry
from ampspec.jobs.tracked import COLUMN_NAME
from ampspec.telemetry import COLUMN_DTYPES

log = logging.getLogger(__name__)

MAX_EXTRAS: Final = 48
"""Columns besides those of every run."""
MAX_EXAMPLES: Final = 2**31 - 1
MAX_STEP: Final = 2**53 - 1
MAX_REASONS: Final = 100
"""Pairs of a column and a reason that are reported; the values of further ones are counted."""
MAX_REASON: Final = 200
"""Characters of a reason."""
LOGGED_STEP: Final = "logged_step"
"""The column with the number that a program gave to a step that is stored under another one."""

Row = dict[str, float]


class UnusableValue(Exception):
    """A value that is no number; the message says what was expected and what came."""


@dataclass
class DroppedValues:
    """How many values were left out of their rows, by column and reason."""

    total: int = 0
    by_reason: dict[tuple[str, str], int] = field(default_factory=dict)
    _reported: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, name: str, reason: str) -> bool:
        """Count a value; True for the first one of this column and reason."""
        self.total += 1
        key = (name[:100], reason[:MAX_REASON])
        if key not in self.by_reason and len(self.by_reason) >= MAX_REASONS:
            return False
        self.by_reason[key] = self.by_reason.get(key, 0) + 1
        return self.by_reason[key] == 1

    def take_entries(self, step: int, *, is_last: bool) -> Iterator[PendingEntry]:
        """A warning for each new reason, and at the end one for each that occurred again."""
        for (name, reason), count in list(self.by_reason.items()):
            reported = self._reported.get((name, reason), 0)
            if reported and (not is_last or count == reported):
                continue
            self._reported[name, reason] = count
            values = f"{count} values" if count > 1 else "A value"
            text = f"{values} of {name!r} {'were' if count > 1 else 'was'} left out: {reason}"
            data = {"code": "values_dropped", "column": name, "count": count, "message": text}
            yield event_entry("warning", data, step)


class RowValues:
    """Converts the values of rows; nothing that a program logs raises an error.

    `dropped` counts what is left out. None is an empty cell, and is not counted.
    """

    def __init__(self) -> None:
        self.dropped = DroppedValues()
        self._extras: set[str] = set()

    def row(self, values: Mapping[str, Any]) -> tuple[Row, list[tuple[str, str]]]:
        """The numbers among the values, and the columns left out for a new reason, with it."""
        row: Row = {}
        reasons: list[tuple[str, str]] = []
        for name, value in values.items():
            if value is None:
                continue
            try:
                self._check_name(name)
                row[name] = _CONVERSIONS.get(name, to_number)(value)
            except UnusableValue as error:
                if self.dropped.add(name, str(error)):
                    reasons.append((name, str(error)))
        return row, reasons

    def step(self, step: Any) -> tuple[int | None, float | None]:
        """The number of a step, and the number as it was given if no step can have it.

        Raises UnusableValue for what is no number.
        """
        if step is None:
            return None, None
        number = to_number(step)
        if not math.isfinite(number):
            raise UnusableValue(f"expected a whole number, received {number}")
        exact = int(step) if isinstance(step, int) else int(number)
        if exact != number or not 0 <= exact <= MAX_STEP:
            return None, number
        return exact, None

    def step_or_next(self, step: Any) -> tuple[int | None, float | None]:
        """As `step`; what is no number is counted, and means the next step."""
        try:
            return self.step(step)
        except UnusableValue as error:
            if self.dropped.add("step", str(error)):
                log.warning("a step is numbered on from the one before: %s", error)
            return None, None

    def _check_name(self, name: str) -> None:
        if name in self._extras or name in COLUMN_DTYPES:
            return
        if not COLUMN_NAME.fullmatch(name) or name in ("step", LOGGED_STEP):
            raise UnusableValue(
                f"expected a name other than step and {LOGGED_STEP} that matches "
                f"{COLUMN_NAME.pattern}, received {name[:100]!r}"
            )
        if len(self._extras) >= MAX_EXTRAS:
            raise UnusableValue(f"expected at most {MAX_EXTRAS} further columns")
        self._extras.add(name)


def to_number(value: Any) -> float:
    """A number, a string of digits, or an array or tensor of one element, as a float.

    An integer beyond the range of floats is an infinity. Raises UnusableValue for anything else.
    """
    shape = getattr(value, "shape", ())
    try:
        if (size := math.prod(shape)) != 1:
            raise UnusableValue(
                f"expected a number, received an array of {size} values, shape {tuple(shape)}; "
                "log its mean, or each value under a name of its own"
            )
        if len(shape):  # of one element; tensors of TensorFlow have no item()
            value = (value if hasattr(value, "item") else value.numpy()).item()
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except UnusableValue:
        raise
    except Exception as error:  # whatever a tensor of another library raises
        hint = _HINTS.get(type(value), "")
        raise UnusableValue(f"expected a number, received {type(value).__name__}{hint}") from error


def _to_flag(value: Any) -> float:
    return float(bool(to_number(value)))


def _to_examples(value: Any) -> float:
    number = to_number(value)
    if not 0 <= number <= MAX_EXAMPLES or number != int(number):
        raise UnusableValue(f"expected a whole number from 0 to {MAX_EXAMPLES}")
    return number


def _to_seconds(value: Any) -> float:
    number = to_number(value)
    if not 0 <= number < 1e9:
        raise UnusableValue("expected seconds of 0 or more, received another number")
    return number


_HINTS: Final[dict[type, str]] = {
    dict: "; log each of its values under a name of its own: run.log(step, **values)",
    str: "; write text with log_text",
}
_CONVERSIONS: Final = {
    "skipped": _to_flag,
    "examples": _to_examples,
    "step_time_s": _to_seconds,
}
