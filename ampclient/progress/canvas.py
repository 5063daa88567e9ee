"""Dots as text: eight in a character of Braille, or two where a terminal has only ASCII.

Source: Unicode, Braille Patterns, U+2800: the bits of a character are its dots.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

BRAILLE: Final = 0x2800


@dataclass(frozen=True)
class Ink:
    """What a terminal can show: the dots of one character, and which character shows them."""

    across: int
    down: int
    bits: tuple[tuple[int, ...], ...]
    """What each dot adds, a row after the other."""
    characters: str
    """By that sum."""
    mark: str

    def lines(self, dots: "NDArray[Any]") -> list[str]:
        """The rows of dots, the topmost first, as lines of text."""
        import numpy as np

        height, width = dots.shape
        cells = dots.reshape(height // self.down, self.down, width // self.across, self.across)
        sums = np.einsum("rdca,da->rc", cells.astype(np.int64), np.array(self.bits))
        return ["".join(self.characters[total] for total in row) for row in sums.tolist()]


DOTS: Final = Ink(
    across=2,
    down=4,
    bits=((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80)),
    characters=" " + "".join(chr(BRAILLE + pattern) for pattern in range(1, 256)),
    mark="×",
)
PLAIN: Final = Ink(across=1, down=2, bits=((1,), (2,)), characters=" '.:", mark="x")
