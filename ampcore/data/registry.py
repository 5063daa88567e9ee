"""The registry of data loaders by kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ampcore.data.dataset import Dataset
from ampcore.errors import InvalidData
from ampcore.spec.data import DataSpec

Loader = Callable[[Any, int, Path | None], Dataset]
"""(the spec's data part, the job's seed, the data root or None) to a Dataset."""

LOADERS: dict[str, Loader] = {}


def register(kind: str) -> Callable[[Loader], Loader]:
    """Make the decorated function the loader of `kind`."""

    def add(loader: Loader) -> Loader:
        LOADERS[kind] = loader
        return loader

    return add


def load(
    spec: DataSpec, *, seed: int, data_root: Path | None = None, accumulate: int = 1
) -> Dataset:
    """The data of a spec, with training examples for at least one step.

    A path in the spec is relative to `data_root` and cannot leave it; without a root any path is
    allowed. Raises InvalidData.
    """
    dataset = LOADERS[spec.kind](spec, seed, data_root)
    if spec.batch_size > len(dataset.train):
        raise InvalidData(
            getattr(spec, "path", spec.kind),
            "batch_size",
            expected=f"at most {len(dataset.train)}, the number of training examples "
            f"with validation_split {spec.validation_split:g}",
            received=str(spec.batch_size),
        )
    if spec.batch_size * accumulate > len(dataset.train):
        raise InvalidData(
            getattr(spec, "path", spec.kind),
            "train.accumulate",
            expected=f"at most {len(dataset.train) // spec.batch_size}, the number of whole "
            f"batches of {spec.batch_size} in {len(dataset.train)} training examples",
            received=str(accumulate),
        )
    return dataset
