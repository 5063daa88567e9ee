"""Checks that the options for a column fit its values."""

from typing import Final, NamedTuple

from ampspec.data.preprocessing import Preprocessing
from ampspec.objectives.task import TargetKind

TEXT: Final = "string"


class Misfit(NamedTuple):
    """The expected kind of column or options, and the received one."""

    expected: str
    received: str


def preprocessing_misfit(dtype: str, options: Preprocessing) -> Misfit | None:
    """Why these options cannot prepare a column of this dtype; None if they can."""
    if dtype == TEXT and (options.rescaling is not None or options.normalize or options.keys):
        return Misfit("categories or tokens, for text", "rescaling, normalize or keys")
    needs_text = options.tokens is not None and dtype != TEXT
    if needs_text or (dtype.startswith("float") and options.keys):
        expected = f"rescaling, normalize, missing or categories, for {dtype}"
        return Misfit(expected, "tokens or keys")
    return None


def target_misfit(
    dtype: str,
    kind: TargetKind,
    *,
    has_fractions: bool,
    low: float | None = None,
    high: float | None = None,
) -> Misfit | None:
    """Why a column of this dtype cannot be a target of this kind; None if it can.

    `low` and `high` are the smallest and the largest known number; None if none is known.
    """
    if kind in ("labels", "numbers") and dtype == TEXT:
        return Misfit("a column of numbers", "text")
    if kind == "class" and has_fractions:
        expected = "classes: whole numbers, names, or one-hot rows (or task.kind: regression)"
        return Misfit(expected, "numbers with fractions")
    if kind == "labels" and low is not None and high is not None and (low < 0 or high > 1):
        expected = "labels that are 0 or 1 (or task.kind: classification)"
        return Misfit(expected, f"numbers from {low:g} to {high:g}")
    return None
