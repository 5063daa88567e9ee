"""How many steps the next call of the loop runs: a block about every half second."""

from typing import Final

BLOCK_S: Final = 0.5
# The first block is short and its time says little, so later ones grow towards the aim.
GROWTH: Final = 8


class Pacing:
    """The first block is one step, so that the first values come fast."""

    def __init__(self, block_s: float = BLOCK_S) -> None:
        self._block_s = block_s
        self._size = 1

    def next_size(self, remaining: int) -> int:
        """The steps of the next block, at most `remaining`."""
        return min(self._size, remaining)

    def observe(self, steps: int, seconds: float) -> None:
        """Learn from a block of `steps` that took `seconds`."""
        fitting = int(self._block_s * steps / max(seconds, 1e-9))
        self._size = max(1, min(fitting, self._size * GROWTH))
