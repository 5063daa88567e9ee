"""Checks the names of columns: their number, their length and that they differ."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from ampdata.limits import Limits
from ampdata.place import Place
from ampspec.documents.text import join_names

MAX_CHARACTERS: Final = 256
"""The same limit as in the options of file formats."""


def check_column_names(place: Place, names: Sequence[str], limits: Limits) -> None:
    """Raise InvalidData for too many, too long or duplicate names."""
    if len(names) > limits.columns:
        raise place.invalid(f"at most {limits.columns:,} columns", f"{len(names):,}")
    for name in names:
        if len(name) > MAX_CHARACTERS:
            raise place.invalid(
                f"column names of at most {MAX_CHARACTERS} characters",
                f"{len(name):,} characters: {name[:40]}…",
            )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise place.invalid(
            "a different name for each column", f"{join_names(repeated)} more than once"
        )
