"""Find a minimal sufficient part of a list with few trials.

Source: the prefix search of QuickXplain (Junker, AAAI 2004); delta debugging (Zeller and
Hildebrandt, IEEE TSE 28(2), 2002) answers the same question with O(n²) trials in the worst case.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def minimal_set(
    candidates: Sequence[Item],
    is_enough: Callable[[Sequence[Item]], bool],
    *,
    likely_first: bool = False,
) -> list[Item]:
    """A part of the candidates that suffices, and from which none can be removed.

    This holds if more is never worse: any superset of a sufficient part suffices. The result has
    always been tried.

    Args:
        candidates: All of them together suffice; this is not tried.
        is_enough: Tries some candidates, in their order; never called twice with the same ones.
        likely_first: Whether probably needed candidates come first. Then the lengths of the
            first prefixes double (exponential search: Bentley and Yao, 1976), which takes fewer
            trials if that is true, and up to twice as many if not.

    Returns:
        k of the n candidates, in their order, after at most k (log2 n + 2) + 1 trials.
    """
    chosen: list[int] = []
    outcomes = {tuple(range(len(candidates))): True}

    def passes(size: int) -> bool:
        tried = tuple(sorted({*chosen, *range(size)}))
        if tried not in outcomes:
            outcomes[tried] = is_enough([candidates[index] for index in tried])
        return outcomes[tried]

    end = len(candidates)
    while not passes(0):
        end = _shortest_prefix(passes, end, double=likely_first) - 1
        chosen.append(end)
    return [candidates[index] for index in sorted(chosen)]


def _shortest_prefix(passes: Callable[[int], bool], size: int, *, double: bool) -> int:
    """The length of the shortest passing prefix; that of `size` passes, the empty one fails."""
    too_short, step = 0, 1
    while double and too_short + step < size:
        if passes(too_short + step):
            size = too_short + step
            break
        too_short += step
        step *= 2
    while size - too_short > 1:
        middle = (too_short + size) // 2
        if passes(middle):
            size = middle
        else:
            too_short = middle
    return size


def without_unneeded(
    items: Sequence[Item], is_enough: Callable[[Sequence[Item]], bool]
) -> list[Item]:
    """Remove items one by one while the remaining ones suffice; one trial for each item."""
    kept = list(items)
    for item in items:
        remaining = [other_item for other_item in kept if other_item is not item]
        if is_enough(remaining):
            kept = remaining
    return kept
