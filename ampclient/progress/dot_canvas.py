"""Renders dots as text: eight per Braille character, or two per ASCII character.

Source: Unicode, Braille Patterns, U+2800: the bits of a character are its dots.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

BRAILLE: Final = 0x2800


@dataclass(frozen=True)
class DotStyle:
    """A character set: the dots per character, and the character for each combination."""

    dots_wide: int
    dots_high: int
    bits: tuple[tuple[int, ...], ...]
    """The bit of each dot, row by row."""
    characters: str
    """The characters, indexed by the sum of the bits."""
    skip_mark: str

    def lines(self, dots: "NDArray[Any]") -> list[str]:
        """The rows of dots, the top row first, as lines of text."""
        import numpy as np

        height, width = dots.shape
        cells = dots.reshape(
            height // self.dots_high, self.dots_high, width // self.dots_wide, self.dots_wide
        )
        sums = np.einsum("rdca,da->rc", cells.astype(np.int64), np.array(self.bits))
        return ["".join(self.characters[total] for total in row) for row in sums.tolist()]


BRAILLE_DOTS: Final = DotStyle(
    dots_wide=2,
    dots_high=4,
    bits=((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80)),
    characters=" " + "".join(chr(BRAILLE + pattern) for pattern in range(1, 256)),
    skip_mark="×",
)
ASCII_DOTS: Final = DotStyle(
    dots_wide=1, dots_high=2, bits=((1,), (2,)), characters=" '.:", skip_mark="x"
)
