"""Assertions about a comparison of jobs, such as `val_accuracy within 0.5 points`.

    NAME within NUMBER [points | % | SIZE]
    NAME (<= | >= | < | >) NUMBER [x | % | SIZE]
    NAME (<= | >= | < | >) base [(+ | -) NUMBER [points | % | SIZE]]

`base` and `x` (times) are the value of the baseline. Points are hundredths of a share: from 91 % to
90.5 % are 0.5 points; `1 point` is the same as `1 points`. After `base` and `within`, % is relative
to the baseline's value; otherwise 1 % is 0.01. SIZE is kB, MB, GB, KiB, MiB or GiB.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ampspec.documents.problems import closest_match
from ampspec.documents.text import join_names

SUCCEEDED: Final = "state is succeeded"
"""What is asserted of every job, since others have no results, or not yet all of them."""
ALIASES: Final[Mapping[str, str]] = {
    "loss": "final_loss",
    "examples_per_s": "median_examples_per_s",
    "peak_memory": "peak_memory_bytes",
}
"""Short names of results."""
SIZES: Final[Mapping[str, float]] = {
    **{"kB": 1e3, "MB": 1e6, "GB": 1e9},
    **{"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30},
}
MAX_NAMES: Final = 40
ROUNDING: Final = 1e-9
"""Values whose relative difference is smaller are equal: 0.91 - 0.905 is a little above 0.005."""

_NUMBER: Final = r"(?P<number>\d+(?:\.\d*)?(?:e[+-]?\d+)?)"
_UNIT: Final = rf"(?P<unit>points?|%|{'|'.join(SIZES)})?"
_NAME: Final = r"(?P<name>\w(?:[\w.:@/+()%,# -]*?[\w.:@/+()%,#-])?)"
_COMPARED: Final = r"\s*(?P<operator><=|>=|<|>)\s*"
_FORMS: Final = (
    re.compile(rf"{_NAME}\s+(?P<operator>within)\s+{_NUMBER}\s*{_UNIT}"),
    re.compile(rf"{_NAME}{_COMPARED}(?P<base>base)(?:\s*(?P<sign>[+-])\s*{_NUMBER}\s*{_UNIT})?"),
    re.compile(rf"{_NAME}{_COMPARED}(?P<sign>-)?{_NUMBER}\s*(?P<unit>x|%|{'|'.join(SIZES)})?"),
)
FORMS: Final = (
    "'NAME within 0.5 points', 'NAME >= 0.95x', 'NAME <= 1 %', 'NAME >= base - 0.5 points' or the "
    "like"
)


class InvalidAssertion(ValueError):
    """An assertion is malformed, or a job has no value of that name."""


@dataclass(frozen=True)
class Assertion:
    """A condition on the value of a job and that of the baseline.

    The bound is `factor` × base + `offset` + `share` × |base|; within, these two are the largest
    difference.
    """

    text: str
    name: str
    """The name of a result, without aliases."""
    operator: str
    factor: float = 0.0
    offset: float = 0.0
    share: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Assertion":
        """Parse one assertion. Raises InvalidAssertion."""
        matches = (form.fullmatch(text.strip()) for form in _FORMS)
        form = next((match for match in matches if match), None)
        if form is None:
            raise InvalidAssertion(f"expected {FORMS}; received {text!r}")
        parts = form.groupdict()
        name, operator = ALIASES.get(parts["name"], parts["name"]), parts["operator"]
        sign = -1.0 if parts.get("sign") == "-" else 1.0
        number, unit = sign * float(parts["number"] or 0.0), parts["unit"]
        relative = operator == "within" or parts.get("base") is not None
        factor = 1.0 if parts.get("base") is not None else 0.0
        if unit == "x":
            return cls(text.strip(), name, operator, factor=number)
        if unit == "%" and relative:
            return cls(text.strip(), name, operator, factor, share=number / 100)
        scale = 0.01 if unit in ("point", "points", "%") else SIZES.get(unit or "", 1.0)
        return cls(text.strip(), name, operator, factor, offset=number * scale)

    @property
    def needs_base(self) -> bool:
        """Whether it is about the value of the baseline, too."""
        return self.operator == "within" or bool(self.factor)

    def bounds(self, base: float) -> tuple[float, float]:
        """The least and the largest value that it allows, which may be infinite."""
        allowed = self.offset + self.share * abs(base)
        if self.operator == "within":
            return base - allowed, base + allowed
        bound = (self.factor * base if self.factor else 0.0) + allowed
        return (bound, math.inf) if self.operator.startswith(">") else (-math.inf, bound)

    def allowed_text(self, base: float) -> str:
        """The values that it allows, such as `>= 0.905` or `0.9 to 0.92`."""
        lowest, highest = self.bounds(base)
        if self.operator == "within":
            return f"{number_text(lowest)} to {number_text(highest)}"
        bound = lowest if math.isinf(highest) else highest
        return f"{self.operator} {number_text(bound)}"

    def holds(self, value: float, base: float) -> bool:
        """Whether a value satisfies it; NaN and the infinities never do, nor of the baseline."""
        if not math.isfinite(value) or (self.needs_base and not math.isfinite(base)):
            return False
        lowest, highest = self.bounds(base)
        # A difference of two close values has the rounding errors of the values.
        slack = ROUNDING * max(abs(value), abs(base)) if self.operator == "within" else 0.0
        at_bound = any(math.isclose(value, bound, rel_tol=ROUNDING) for bound in (lowest, highest))
        if self.operator in ("<", ">"):
            return lowest < value < highest and not at_bound
        return lowest - slack <= value <= highest + slack or at_bound


def value_named(
    name: str,
    job: str,
    values: Mapping[str, Sequence[float | None]],
    index: int,
    *,
    owner: str = "job",
) -> float:
    """The value of a job by name. Raises InvalidAssertion with the names that it has."""
    value = values.get(name, [None] * (index + 1))[index]
    if value is not None:
        return value
    names = [key for key, numbers in values.items() if numbers[index] is not None]
    close = closest_match(name, [*names, *ALIASES])
    suggestion = f" Did you mean {close!r}?" if close else ""
    listed = join_names(names, MAX_NAMES) or "none"
    raise InvalidAssertion(f"the {owner} {job} has no value {name!r}; it has {listed}.{suggestion}")


def number_text(value: float) -> str:
    """A number with enough digits to tell it from a close one."""
    return f"{value:,.0f}" if value == round(value, 0) and abs(value) >= 1e5 else f"{value:.6g}"
