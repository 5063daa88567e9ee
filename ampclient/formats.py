"""How numbers, times and other people's words are written for a person at a terminal."""

import math
import re
from datetime import datetime
from typing import Final

UNKNOWN = "–"
COLOUR: Final = re.compile(r"(\x1b\[(?:[0-9]{0,3};){0,4}[0-9]{0,3}m)")
STYLES: Final = {0, 1, 3, 4, 22, 23, 24, 39, *range(31, 38), *range(90, 98)}
"""Of a text in a terminal: bold, italic, underlined, and colours; none of these hides it."""
RETURN: Final = re.compile(r"\r+\n?")


def number(value: float | None) -> str:
    """Four significant digits; nan and inf by name."""
    return UNKNOWN if value is None else f"{value:.4g}"


def loss_scale(value: float | None) -> str:
    """A power of two from 1024 on as such, 2^15; any other number in full."""
    if value is None:
        return UNKNOWN
    if math.isfinite(value) and value >= 1024:
        mantissa, exponent = math.frexp(value)
        if mantissa == 0.5:
            return f"2^{exponent - 1}"
    return f"{value:.10g}"


def rate(value: float | None) -> str:
    """A throughput, without decimals; unknown while none was measured."""
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"{value:,.0f}"


def percent(value: float | None) -> str:
    """A share of one."""
    return UNKNOWN if value is None else f"{value:.1%}"


def duration(seconds: float | None) -> str:
    """0.25 s, 0:07, 12:34, 1:02:03."""
    if seconds is None:
        return UNKNOWN
    if 0 < seconds < 1:
        return f"{seconds:.2g} s"
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def ago(seconds: float) -> str:
    """How long ago, in the largest unit that there is one of: 12 s ago, 5 min ago, 3 d ago."""
    for unit, size_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size_s:
            return f"{seconds // size_s:.0f} {unit} ago"
    return f"{max(0, seconds):.0f} s ago"


def size(size_bytes: int) -> str:
    """A number of bytes, in the largest unit that there is one of: 512 B, 1.5 MiB."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes >= 2**power:
            return f"{size_bytes / 2**power:.1f} {unit}"
    return f"{size_bytes} B"


def moment(value: datetime | None) -> str:
    """A time in the reader's own time zone, to the second."""
    return UNKNOWN if value is None else f"{value.astimezone():%Y-%m-%d %H:%M:%S}"


def steps(step: int, total: int | None) -> str:
    """12/30, or 12 while nobody knows how many there will be."""
    return f"{step}" if total is None else f"{step}/{total}"


def printable(text: str) -> str:
    """The text without what could steer a terminal: names and messages come from other people."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def log_text(text: str) -> str:
    """The lines of a log, with their colours, but without what else could steer a terminal.

    Nothing that was printed is written over or hidden: a carriage return begins a new line.
    """
    return "".join(
        piece if _is_colour(piece) else _without_control(piece) for piece in COLOUR.split(text)
    )


def _is_colour(piece: str) -> bool:
    found = COLOUR.fullmatch(piece)
    return found is not None and all(int(n or 0) in STYLES for n in piece[2:-1].split(";"))


def _without_control(text: str) -> str:
    lines = RETURN.sub("\n", text)
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in lines)
