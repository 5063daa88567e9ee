"""What the function of a bundle learns about the data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Input:
    """One input: the shape of an example, without the batch, and its dtype."""

    shape: tuple[int, ...]
    dtype: str
    """float32, or int32 for keys such as tokens."""


@dataclass(frozen=True)
class Target:
    """What one output predicts."""

    kind: str
    """class, labels, numbers or input (the input itself)."""
    size: int
    """The number of classes, labels or numbers."""
    shape: tuple[int, ...] = ()
    """The positions of an example that have a target each, as (height, width) of a mask."""
    names: tuple[str, ...] | None = None
    """The names of the classes, if the data has names."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of an output with one number for each class, label or number."""
        return (*self.shape, self.size)


@dataclass(frozen=True)
class BundleSignature:
    """The inputs and targets of the data.

    Attributes:
        inputs: By name; the only input of most data is called `input`.
        targets: By the output that they belong to; the only one is called `output`.
        vocabulary: int32 inputs hold keys from 0 to `vocabulary` - 1; None for others.
        path: The file or folder of the data, to read; None for data that is not a file.
    """

    inputs: Mapping[str, Input]
    targets: Mapping[str, Target]
    vocabulary: int | None = None
    path: Path | None = None

    @property
    def input(self) -> Input:
        """The only input. Raises ValueError if there are several."""
        return _only_one(self.inputs, "inputs")

    @property
    def target(self) -> Target:
        """The only target. Raises ValueError if there are several."""
        return _only_one(self.targets, "targets")


def _only_one(by_name: Mapping[str, T], what: str) -> T:
    if len(by_name) != 1:
        raise ValueError(f"expected one of the {what} by its name: {', '.join(by_name)}")
    return next(iter(by_name.values()))
