"""Formats numbers, times and untrusted text for a terminal; numbers by the rule of `numbers`."""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from ampclient._display.numbers import (
    UNKNOWN,
    age,
    duration,
    factor,
    integer,
    number,
    percent,
    signed,
    size,
)

__all__ = [
    "UNKNOWN",
    "ago",
    "duration",
    "factor",
    "integer",
    "log_text",
    "loss_scale",
    "metric",
    "metric_label",
    "metrics",
    "moment",
    "number",
    "percent",
    "printable",
    "rate",
    "scale_health",
    "signed",
    "size",
    "steps",
]
LOSS_SCALE_DIGITS: Final = 10
HEALTH_TEXTS: Final = {
    "pinned at the floor": "at minimum scale",
    "pinned at the cap": "at maximum scale",
}
"""Texts for values of `scale_health`; the other values are their own texts."""
MAX_METRICS: Final = 4
"""The metrics of a job that one line shows."""
COLOUR: Final = re.compile(r"(\x1b\[(?:[0-9]{0,3};){0,4}[0-9]{0,3}m)")
STYLES: Final = {0, 1, 3, 4, 22, 23, 24, 39, *range(31, 38), *range(90, 98)}
"""Allowed SGR codes: bold, italic, underline and colours; none of them hides text."""
RETURN: Final = re.compile(r"\r+\n?")


def loss_scale(value: float | None) -> str:
    """A power of two of at least 1024 as 2^15; any other number in full."""
    if value is None:
        return UNKNOWN
    if math.isfinite(value) and value >= 1024:
        mantissa, exponent = math.frexp(value)
        if mantissa == 0.5:
            return f"2^{exponent - 1}"
    return number(value, LOSS_SCALE_DIGITS)


def scale_health(value: str) -> str:
    """The health of a loss scale, as text."""
    return HEALTH_TEXTS.get(value, value)


def rate(value: float | None) -> str:
    """A throughput; – if it was not measured."""
    return UNKNOWN if value is None or math.isnan(value) else number(value)


def metric_label(name: str) -> str:
    """A metric as words: `val_top-5` is "validation top-5"."""
    return printable(name.replace("val_", "validation ", 1).replace("_", " "))


def metric(name: str, value: float | None) -> str:
    """The value of a metric: an accuracy as a percentage."""
    if value is not None and "accuracy" in name and 0 <= value <= 1:
        return percent(value)
    return number(value)


def metrics(values: Mapping[str, float]) -> str:
    """The first metrics in one line, and how many more there are."""
    shown = [f"{metric_label(n)} {metric(n, v)}" for n, v in [*values.items()][:MAX_METRICS]]
    more = len(values) - len(shown)
    return "  ".join(shown) + (f"  and {more} more" if more else "")


def ago(seconds: float) -> str:
    """How long ago: 12 s ago, 5 min ago, 3 d ago."""
    return f"{age(seconds)} ago"


def moment(value: datetime | None) -> str:
    """A time in the local time zone, to the second."""
    return UNKNOWN if value is None else f"{value.astimezone():%Y-%m-%d %H:%M:%S}"


def steps(step: int, total: int | None) -> str:
    """12/30, or 12 while the total is unknown."""
    return f"{step}" if total is None else f"{step}/{total}"


def printable(text: str) -> str:
    """The text without terminal control characters: names and messages are untrusted input."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def log_text(text: str) -> str:
    """The text of a log with its colours, but without any other terminal control characters.

    No output can be overwritten or hidden: a carriage return starts a new line.
    """
    return "".join(
        piece if _is_colour(piece) else _without_control(piece) for piece in COLOUR.split(text)
    )


def _is_colour(piece: str) -> bool:
    match = COLOUR.fullmatch(piece)
    return match is not None and all(int(n or 0) in STYLES for n in piece[2:-1].split(";"))


def _without_control(text: str) -> str:
    lines = RETURN.sub("\n", text)
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in lines)
