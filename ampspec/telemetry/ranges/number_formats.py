"""The limits of the floating-point formats that a layer may compute in.

Sources: IEEE 754-2019 (float16); Kalamkar et al. 2019, arXiv:1905.12322 (bfloat16); Micikevicius et
al. 2022, arXiv:2209.05433 (float8: e4m3 without infinities, as `float8_e4m3fn`, and e5m2).
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class NumberFormat:
    """One format: its values are ± 1.m × 2^e, or ± 0.m × 2^min_normal_exponent.

    Args:
        name: Its name in Keras and ml_dtypes.
        largest: The largest finite number.
        min_normal_exponent: The exponent of the smallest normal number.
        mantissa_bits: The stored bits of the fraction.
    """

    name: str
    largest: float
    min_normal_exponent: int
    mantissa_bits: int

    @property
    def max_exponent(self) -> int:
        """The exponent of the largest number, and of those in the same power of two."""
        return self._top[1]

    @property
    def min_subnormal_exponent(self) -> int:
        """The exponent of the smallest number above 0."""
        return self.min_normal_exponent - self.mantissa_bits

    @property
    def underflow_exponent(self) -> int:
        """Numbers with this exponent or a lower one round to 0: they are below half the smallest.

        Exactly half of the smallest number rounds to 0 too, but has the exponent above.
        """
        return self.min_subnormal_exponent - 2

    @property
    def overflow_threshold(self) -> float:
        """The smallest number that rounds beyond the largest one."""
        mantissa, exponent = self._top
        last_bit = 2.0 ** (exponent - self.mantissa_bits)
        # A tie goes to the even neighbour. The largest number of e4m3 is even, since its last code
        # is NaN; in the other formats it is odd.
        is_even = (mantissa * 2**self.mantissa_bits) % 2 == 0
        threshold = self.largest + last_bit / 2
        return threshold * (1 + 2**-40) if is_even else threshold

    def spacing(self, exponent: int) -> float:
        """The distance of neighbours among the numbers with this exponent."""
        return 2.0 ** (max(exponent, self.min_normal_exponent) - self.mantissa_bits)

    @property
    def _top(self) -> tuple[float, int]:
        """The largest number as a mantissa in [1, 2) and an exponent."""
        exponent = 0
        mantissa = self.largest
        while mantissa >= 2:
            mantissa, exponent = mantissa / 2, exponent + 1
        return mantissa, exponent


FLOAT16: Final = NumberFormat("float16", 65504.0, -14, 10)
BFLOAT16: Final = NumberFormat("bfloat16", (2 - 2.0**-7) * 2.0**127, -126, 7)
FLOAT8_E4M3: Final = NumberFormat("float8_e4m3fn", 448.0, -6, 3)
FLOAT8_E5M2: Final = NumberFormat("float8_e5m2", 57344.0, -14, 2)

NUMBER_FORMATS: Final = {
    number_format.name: number_format
    for number_format in (FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2)
}
"""Every format, by its name."""
