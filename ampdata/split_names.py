"""Recognizes training, validation and test data by the names of arrays, files and folders."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from ampdata.place import Place
from ampdata.source import Split
from ampspec.documents.text import join_names

ALIASES: Final[dict[str, Split]] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
    "eval": "test",
    "evaluation": "test",
}
"""The same aliases as in Hugging Face's datasets."""
ORDER: Final[tuple[Split, ...]] = ("train", "validation", "test")
WORD_ENDS: Final = r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
"""Between words: `x_train`, `train/images`, `trainX`, `XTrain`."""
ARRAY: Final = "x"
"""The column of arrays named `train` and `test`."""
MAX_NAMES: Final = 20


class ArraySplits(NamedTuple):
    """The names of arrays by split and column, and arrays without a split."""

    parts: Mapping[Split | None, Mapping[str, str]]
    """All under None if no name contains a split."""
    other_arrays: tuple[str, ...] = ()


def folder_split(name: str) -> Split | None:
    """The split of a folder: `train`, `val`; None for other names."""
    return ALIASES.get(name.lower())


def file_split(name: str) -> Split | None:
    """The first word of a file's name that is a split: `mnist-train-00000-of-00002.parquet`."""
    words = re.split(rf"{WORD_ENDS}|\d+", name)
    return next((ALIASES[word.lower()] for word in words if word.lower() in ALIASES), None)


def array_split(name: str) -> tuple[str, Split | None]:
    """The column and split of an array: `x_train`, `train_x` and `trainX` are `x` of `train`."""
    words = re.split(WORD_ENDS, name)
    if split := ALIASES.get(words[-1].lower()):
        return name[: -len(words[-1])].rstrip("_-./ ") or ARRAY, split
    if split := ALIASES.get(words[0].lower()):
        return name[len(words[0]) :].lstrip("_-./ "), split
    return name, None


def split_arrays(place: Place, names: Iterable[str], patterns: Mapping[Split, str]) -> ArraySplits:
    """Which arrays belong to which split.

    Arrays without a split in their names are the training part of others: `x` beside `x_test`. An
    array such as `blood_test` is a column, unless there is an array `blood`.

    Args:
        place: The archive in messages.
        names: The names of all arrays.
        patterns: Patterns with one `*` for the name of the column; empty: the rule above.

    Raises:
        InvalidData: The names do not tell which arrays are for training.
    """
    pairs: list[tuple[str, str, Split | None]] = [
        (name, *_pattern_split(name, patterns)) for name in names
    ]
    if not any(split == "train" for _, _, split in pairs):
        # `dev` beside `x` may be anything.
        pairs = [
            (name, name, None) if name.lower() in ALIASES else (name, column, split)
            for name, column, split in pairs
        ]
    parts: dict[Split | None, dict[str, str]] = defaultdict(dict)
    for name, column, split in pairs:
        if column in parts[split]:
            received = f"{parts[split][column]} and {name}"
            raise place.invalid(f"one array for the column {column} of {split}", received)
        parts[split][column] = name
    plain, columns = parts.pop(None, {}), {column for part in parts.values() for column in part}
    if "train" in parts or patterns:
        train = parts.get("train", {})
        if columns_twice := sorted(plain.keys() & train.keys()):
            names = [name for column in columns_twice for name in (column, train[column])]
            raise _ambiguous(place, names)
        return ArraySplits(parts, tuple(plain))
    if not plain:
        return ArraySplits(parts or {None: {}})
    if columns & plain.keys():
        return ArraySplits({"train": plain, **parts})
    if any(len(part) > 1 for part in parts.values()):
        raise _ambiguous(place, [name for name, _, _ in pairs])
    return ArraySplits({None: {name: name for name, _, _ in pairs}})


def _pattern_split(name: str, patterns: Mapping[Split, str]) -> tuple[str, Split | None]:
    if not patterns:
        return array_split(name)
    for split, pattern in patterns.items():
        start, _, end = pattern.partition("*")
        if len(name) > len(start + end) and name.startswith(start) and name.endswith(end):
            return name[len(start) : len(name) - len(end)], split
    return name, None


def _ambiguous(place: Place, names: list[str]) -> Exception:
    return place.invalid(
        "names that tell which arrays are for training, such as x_train and x_test, or the option "
        "`splits`",
        join_names(names, MAX_NAMES),
    )


def pattern_split(path: str, patterns: Mapping[Split, str]) -> Split | None:
    """The split whose pattern (`a-*.parquet`, `fold1/*`) matches a path inside the folder."""
    return next((split for split, pattern in patterns.items() if fnmatchcase(path, pattern)), None)


def in_order(splits: Iterable[Split]) -> tuple[Split, ...]:
    """Training data first, then validation, then test."""
    return tuple(sorted(set(splits), key=ORDER.index))
