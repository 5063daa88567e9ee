"""Student's t distribution for whole degrees of freedom.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions, formulas 26.7.3 and 26.7.4. They
are exact, so that no numerical library is needed for two functions.
"""

import math
from functools import lru_cache
from typing import Final

BISECTIONS: Final = 200
"""Halving an interval of floats this often reaches neighbouring floats."""


def cdf(t: float, degrees: int) -> float:
    """The probability of a value of at most `t`.

    Args:
        t: Any number, also infinite.
        degrees: The degrees of freedom, at least 1.
    """
    if degrees < 1:
        raise ValueError(f"Expected at least 1 degree of freedom. Received: degrees={degrees}")
    inside = _within(abs(t), degrees)
    return 0.5 + math.copysign(0.5 * inside, t)


@lru_cache(maxsize=4096)
def quantile(probability: float, degrees: int) -> float:
    """The value that the distribution is below with this probability, between 0 and 1."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"Expected a number between 0 and 1. Received: probability={probability}")
    if probability < 0.5:
        return -quantile(1.0 - probability, degrees)
    low, high = 0.0, 1.0
    while cdf(high, degrees) < probability:
        low, high = high, 2.0 * high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if cdf(middle, degrees) < probability else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """The probability of a value between -t and t."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine_squared = math.cos(angle) ** 2
    is_odd = degrees % 2 == 1
    if degrees == 1:
        return 2.0 * angle / math.pi
    term = total = math.cos(angle) if is_odd else 1.0
    for number in range(3 if is_odd else 2, degrees - 1, 2):
        term *= cosine_squared * (number - 1) / number
        total += term
    inside = math.sin(angle) * total
    return 2.0 / math.pi * (angle + inside) if is_odd else inside
