"""Draws a column of a sample as dots, from the minimum to the maximum of each dot column.

The arrays of a curve have one value per column of dots; NaN where there is no value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ampclient._telemetry.step_sample import StepSample

LOG_AXIS_RATIO: Final = 30.0
"""Values with a larger ratio of maximum to minimum get a logarithmic axis."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The minimum and maximum in each column of dots, and whether the axis is logarithmic."""

    lows: "NDArray[Any]"
    highs: "NDArray[Any]"
    is_log: bool

    @property
    def value_range(self) -> tuple[float, float] | None:
        """The smallest and the largest finite value; None if there is none."""
        import numpy as np

        both = np.concatenate([self.lows, self.highs])
        finite = both[np.isfinite(both)]
        return (float(finite.min()), float(finite.max())) if len(finite) else None

    def dots(self, height: int) -> "NDArray[Any]":
        """The curve as rows of dots, the top row first; infinite values are drawn at the edge."""
        import numpy as np

        dots = np.zeros((height, len(self.lows)), bool)
        if self.value_range is None:
            return dots
        low, high = self._joined(*(self._rows(v, height) for v in (self.lows, self.highs)))
        rows = np.arange(height)[::-1, None]  # counted from below
        return dots | ((rows >= low) & (rows <= high))

    def _rows(self, values: "NDArray[Any]", height: int) -> "NDArray[Any]":
        """The height of each value, in dots."""
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
        """Extend each stroke to its left neighbour, so that the curve is one line."""
        import numpy as np

        before_low, before_high = low[:-1], high[:-1]
        joined_low, joined_high = low.copy(), high.copy()
        joined_low[1:] = np.where(low[1:] > before_high, before_high + 1, low[1:])
        joined_high[1:] = np.where(high[1:] < before_low, before_low - 1, high[1:])
        return joined_low, joined_high


def curve_of(sample: "StepSample", name: str, width: int, *, is_log: bool | None = None) -> Curve:
    """A column of the sample over `width` columns of dots.

    With `is_log` None, the axis is logarithmic if all values are positive and their ratio is large.
    """
    import numpy as np

    parts = [f"{name}.min", f"{name}.max"] if f"{name}.min" in sample else [name, name]
    low, high = (np.asarray(sample[part], float) for part in parts)
    point_ranges = _point_ranges(len(low), width)
    curve = Curve(
        np.array([np.fmin.reduce(low[a:b]) for a, b in point_ranges]),
        np.array([np.fmax.reduce(high[a:b]) for a, b in point_ranges]),
        bool(is_log),
    )
    if is_log is None and curve.value_range:
        least, largest = curve.value_range
        return Curve(curve.lows, curve.highs, least > 0 and largest / least > LOG_AXIS_RATIO)
    return curve


def skips_in(sample: "StepSample", width: int) -> "NDArray[Any]":
    """Whether a step was skipped in each of `width` columns."""
    import numpy as np

    skipped = np.asarray(sample["skipped"])
    return np.array([bool(skipped[a:b].any()) for a, b in _point_ranges(len(skipped), width)])


def _point_ranges(count: int, width: int) -> Sequence[tuple[int, int]]:
    """The range of points for each of `width` columns; with few points, columns share them."""
    firsts = [column * count // width for column in range(width)]
    ends = [-(-(column + 1) * count // width) for column in range(width)]  # rounded up
    return list(zip(firsts, ends, strict=True))
