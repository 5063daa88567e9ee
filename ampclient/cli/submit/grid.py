"""`--grid precision.policy=float32,mixed_bfloat16`: one job for each combination of values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import typer

OPENING: Final = "[{("
CLOSING: Final = "]})"
QUOTES: Final = "\"'"
BARE: Final = ("true", "false", "null")


@dataclass(frozen=True)
class Variant:
    """One combination: its assignments, and the suffix that its job's name gets."""

    assignments: tuple[str, ...] = ()
    suffix: str = ""


def variants(grids: Sequence[str]) -> list[Variant]:
    """The cross product of the axes `path=value,value`; without axes, one empty variant.

    The last axis changes fastest.
    """
    axes = [_axis(grid) for grid in grids]
    paths = [path for path, _ in axes]
    if len(set(paths)) < len(paths):
        raise typer.BadParameter("each --grid path may be given once", param_hint="--grid")
    words = _words(paths)
    return [
        Variant(
            tuple(f"{path}={value}" for path, value in zip(paths, values, strict=True)),
            " ".join(_suffix_part(*pair) for pair in zip(words, values, strict=True) if pair[0]),
        )
        for values in product(*(values for _, values in axes))
    ]


def _axis(grid: str) -> tuple[str, list[str]]:
    """The path and the texts of its values. Raises typer.BadParameter."""
    path, equals, text = grid.partition("=")
    values = [value.strip() for value in split_values(text)]
    if not equals or not all(path.split(".")) or not all(values):
        expected = "expected path=value,value, as in precision.policy=float32,mixed_bfloat16"
        raise typer.BadParameter(f"{expected}; received {grid}.", param_hint="--grid")
    if len(set(values)) < len(values):
        raise typer.BadParameter(f"duplicate value in {grid}.", param_hint="--grid")
    return path, values


def split_values(text: str) -> Iterator[str]:
    """Split at commas outside brackets and quotes."""
    start, depth, quote = 0, 0, ""
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in QUOTES:
            quote = character
        elif character in OPENING:
            depth += 1
        elif character in CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _words(paths: Sequence[str]) -> list[str]:
    """The label of each path: its last part, or all of it if two end alike; empty for `name`."""
    last = [path.rpartition(".")[2] for path in paths]
    return [
        "" if path == "name" else word if last.count(word) == 1 else path
        for path, word in zip(paths, last, strict=True)
    ]


def _suffix_part(word: str, value: str) -> str:
    """A value such as float32 stands alone; numbers and other values get their label."""
    return value if value.isidentifier() and value not in BARE else f"{word}={value}"
