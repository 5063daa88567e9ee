"""Recognizes training, validation and test data by the names of arrays, files and folders."""

import re
from typing import Final

from ampcore.formats.source import Split

ALIASES: Final[dict[str, Split]] = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
ORDER: Final[tuple[Split, ...]] = ("train", "validation", "test")


def folder_split(name: str) -> Split | None:
    """The split of a folder: `train`, `val`; None for other names."""
    return ALIASES.get(name.lower())


def file_split(name: str) -> Split | None:
    """The first word of a file's name that is a split: `mnist-train-00000-of-00002.parquet`."""
    words = re.split(r"[^a-z]+", name.lower())
    return next((ALIASES[word] for word in words if word in ALIASES), None)


def array_split(name: str) -> tuple[str, Split | None]:
    """The column and split of an array: `x_train` is `x` of `train`."""
    column, _, last = name.rpartition("_")
    split = ALIASES.get(last)
    return (column, split) if column and split else (name, None)


def in_order(splits: set[Split]) -> tuple[Split, ...]:
    """Training data first, then validation, then test."""
    return tuple(split for split in ORDER if split in splits)
