"""Writes numbers, shares, durations and sizes, by the rule that the dashboard has, too.

docs/reference/numbers.md describes it, and tests/number_formats.json has examples of it.
"""

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

UNKNOWN = "–"
SIGNIFICANT_DIGITS: Final = 4
SMALLEST_PLAIN: Final = 1e-4
SMALLEST_SCIENTIFIC: Final = 1e9
BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def number(value: float | None, digits: int = SIGNIFICANT_DIGITS) -> str:
    """Four significant digits, but all digits of the integer part: 0.01235, 123,456, 1.235e-7."""
    if value is None:
        return UNKNOWN
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    exact = abs(Decimal(value))
    if exact and not SMALLEST_PLAIN <= exact < SMALLEST_SCIENTIFIC:
        text = _scientific(exact, digits)
    else:
        integer_digits = len(str(int(exact))) if exact >= 1 else exact.adjusted() + 1
        text = _without_zeros(_rounded(exact, max(0, digits - integer_digits)))
    return f"-{text}" if value < 0 and text != "0" else text


def signed(value: float | None) -> str:
    """A difference: a number with its sign."""
    text = number(value)
    return f"+{text}" if value is not None and value > 0 else text


def integer(value: float | None) -> str:
    """An integer with thousands: 1,234."""
    if value is None:
        return UNKNOWN
    text = _rounded(abs(Decimal(value)), 0)
    return f"-{text}" if value < 0 and text != "0" else text


def percent(share: float | None) -> str:
    """A share as a percentage; a small one never reads 0 %, and only 1 reads 100 %."""
    if share is None or not math.isfinite(share):
        return UNKNOWN if share is None else number(share)
    if share < 0:
        return f"-{percent(-share)}"
    value = share * 100
    if 0 < value < 0.01:
        return "< 0.01 %"
    if 99.9 < value < 100:
        return "> 99.9 %"
    return f"{_without_zeros(_rounded(Decimal(value), 2 if value < 10 else 1))} %"


def factor(value: float | None) -> str:
    """A factor with three significant digits: 1.71 ×."""
    return UNKNOWN if value is None else f"{number(value, 3)} ×"


def duration(seconds: float | None) -> str:
    """The two units that matter: 4.2 ms, 4.2 s, 1 min 05 s, 1 h 04 min, 2 d 3 h.

    A negative one, as of clocks that differ, counts as none.
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return f"{number(max(0, seconds) * 1000, 2)} ms"
    if seconds < 10:
        return f"{_rounded(Decimal(seconds), 1)} s"
    minutes, second = divmod(math.floor(seconds + 0.5), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h"
    if hours:
        return f"{hour} h {minute:02} min"
    return f"{minute} min {second:02} s" if minute else f"{second} s"


def age(seconds: float) -> str:
    """A time that has passed, in one unit: 42 s, 5 min, 47 h, 2 d."""
    passed = max(0, math.floor(seconds))
    if passed < 60:
        return f"{passed} s"
    if passed < 3600:
        return f"{passed // 60} min"
    return f"{passed // 3600} h" if passed < 172_800 else f"{passed // 86_400} d"


def size(size_bytes: int | None) -> str:
    """A number of bytes in the largest fitting unit: 512 B, 1.5 KiB, 362 MiB."""
    if size_bytes is None:
        return UNKNOWN
    unit = min(len(BYTE_UNITS) - 1, max(0, (size_bytes.bit_length() - 1) // 10))
    value = Decimal(size_bytes) / 1024**unit
    decimals = 1 if value < 10 and unit else 0
    return f"{_without_zeros(_rounded(value, decimals))} {BYTE_UNITS[unit]}"


def _rounded(value: Decimal, decimals: int) -> str:
    """With thousands. Of two nearest numbers the larger one, as JavaScript rounds."""
    return f"{value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,f}"


def _scientific(value: Decimal, digits: int) -> str:
    exponent = value.adjusted()
    mantissa = value.scaleb(-exponent).quantize(Decimal(1).scaleb(1 - digits), ROUND_HALF_UP)
    if mantissa >= 10:
        mantissa, exponent = mantissa / 10, exponent + 1
    return f"{_without_zeros(f'{mantissa:f}')}e{exponent}"


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
