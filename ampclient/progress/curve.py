"""A curve of a sample as dots, from the least to the largest value of each place: no peak is lost.

Arrays of a curve have a value for each column of dots; NaN where nothing is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ampclient.step_sample import StepSample

LOG_AXIS_RATIO: Final = 30.0
"""Values that reach over more than this factor get a logarithmic axis."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The least and the largest value at each place, and how the axis runs."""

    lows: "NDArray[Any]"
    highs: "NDArray[Any]"
    is_log: bool

    @property
    def value_range(self) -> tuple[float, float] | None:
        """The least and the largest finite value; None where there is none."""
        import numpy as np

        both = np.concatenate([self.lows, self.highs])
        finite = both[np.isfinite(both)]
        return (float(finite.min()), float(finite.max())) if len(finite) else None

    def dots(self, height: int) -> "NDArray[Any]":
        """The curve in rows of dots, the topmost first; what is infinite stands at the edge."""
        import numpy as np

        dots = np.zeros((height, len(self.lows)), bool)
        if self.value_range is None:
            return dots
        low, high = self._joined(*(self._rows(v, height) for v in (self.lows, self.highs)))
        rows = np.arange(height)[::-1, None]  # counted from below
        return dots | ((rows >= low) & (rows <= high))

    def _rows(self, values: "NDArray[Any]", height: int) -> "NDArray[Any]":
        """How far up each value stands, in dots."""
        import numpy as np

        bottom, top = self._scaled(np.array(self.value_range, float))
        if top <= bottom:
            flat = np.full(len(values), (height - 1) // 2, float)
            return np.where(np.isnan(values), np.nan, flat)
        share = (np.clip(self._scaled(values), bottom, top) - bottom) / (top - bottom)
        scaled: NDArray[Any] = np.round(share * (height - 1))
        return scaled

    def _scaled(self, values: "NDArray[Any]") -> "NDArray[Any]":
        import numpy as np

        if not self.is_log:
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms: NDArray[Any] = np.log2(values)
        return logarithms

    @staticmethod
    def _joined(low: "NDArray[Any]", high: "NDArray[Any]") -> "tuple[NDArray[Any], NDArray[Any]]":
        """Strokes that reach to their left neighbours, so that the curve is one line."""
        import numpy as np

        before_low, before_high = low[:-1], high[:-1]
        joined_low, joined_high = low.copy(), high.copy()
        joined_low[1:] = np.where(low[1:] > before_high, before_high + 1, low[1:])
        joined_high[1:] = np.where(high[1:] < before_low, before_low - 1, high[1:])
        return joined_low, joined_high


def curve_of(sample: "StepSample", name: str, width: int, *, is_log: bool | None = None) -> Curve:
    """A column of the sample over `width` columns of dots.

    `is_log` None: where the values are all above zero and reach far.
    """
    import numpy as np

    parts = [f"{name}.min", f"{name}.max"] if f"{name}.min" in sample else [name, name]
    low, high = (np.asarray(sample[part], float) for part in parts)
    stretches = _point_ranges(len(low), width)
    curve = Curve(
        np.array([np.fmin.reduce(low[a:b]) for a, b in stretches]),
        np.array([np.fmax.reduce(high[a:b]) for a, b in stretches]),
        bool(is_log),
    )
    if is_log is None and curve.value_range:
        least, largest = curve.value_range
        return Curve(curve.lows, curve.highs, least > 0 and largest / least > LOG_AXIS_RATIO)
    return curve


def skips_in(sample: "StepSample", width: int) -> "NDArray[Any]":
    """Whether a step was skipped at each of `width` places."""
    import numpy as np

    skipped = np.asarray(sample["skipped"])
    return np.array([bool(skipped[a:b].any()) for a, b in _point_ranges(len(skipped), width)])


def _point_ranges(count: int, width: int) -> Sequence[tuple[int, int]]:
    """Which of `count` points fall on each place; few points fall on several places each."""
    firsts = [column * count // width for column in range(width)]
    ends = [-(-(column + 1) * count // width) for column in range(width)]  # rounded up
    return list(zip(firsts, ends, strict=True))
