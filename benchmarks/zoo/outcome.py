"""The outcomes of a model's checks: a row of the table."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from zoo.architecture import Architecture, Check
from zoo.reference import failure_of_keras

Status = Literal["passed", "documented", "failed"]


class CheckFailed(AssertionError):
    """A check that a model does not pass."""


@dataclass
class Outcome:
    """The outcome of a check: what it measured, why it failed, or the reason that is documented."""

    status: Status
    detail: str


@dataclass
class Row:
    """The outcomes of a model's checks."""

    name: str
    source: str
    parameters: int = 0
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0
    not_run: str = ""
    """Why no check was made."""

    @property
    def has_failed(self) -> bool:
        """Whether a check failed for no documented reason."""
        return any(outcome.status == "failed" for outcome in self.outcomes.values())

    @property
    def is_documented(self) -> bool:
        """Whether a check failed, and all of them for documented reasons."""
        statuses = {outcome.status for outcome in self.outcomes.values()}
        return "documented" in statuses and "failed" not in statuses

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The row that `to_json` returned."""
        outcomes = {name: Outcome(**value) for name, value in document["outcomes"].items()}
        return cls(**{**document, "outcomes": outcomes})


def outcome_of(
    architecture: Architecture,
    check: Check,
    measure: Callable[[], str],
    folder: Path,
    *,
    is_last: bool = True,
) -> Outcome:
    """Make a check: it passes, fails, or fails as it is documented.

    Args:
        architecture: The architecture.
        check: The check.
        measure: Returns what the check measures, or raises.
        folder: For files of Keras.
        is_last: Whether nothing of the check is measured later, so that a documented deviation
            has to be seen now.
    """
    deviation = architecture.deviations.get(check)
    try:
        detail = measure()
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        if deviation is None or not re.search(deviation.message, message):
            return Outcome("failed", message)
        if deviation.in_keras:
            expected = deviation.in_keras if isinstance(deviation.in_keras, str) else None
            of_keras = failure_of_keras(architecture, check, folder)
            if of_keras is None or not re.search(expected or deviation.message, of_keras):
                return Outcome("failed", f"{message}; Keras alone: {of_keras or 'no error'}")
        return Outcome("documented", deviation.reason)
    if deviation is not None and is_last:
        return Outcome("failed", f"passed ({detail}), but documented is: {deviation.reason}")
    return Outcome("passed", detail)
