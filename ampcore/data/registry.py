"""The registry of data loaders by kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ampcore.data.dataset import Dataset
from ampcore.errors import InvalidData
from ampcore.spec.data import DataSpec, FileData
from ampcore.spec.dataset_reference import VersionReference
from ampcore.spec.task import TaskSpec

RESIDENT_BYTES: Final = 4 * 2**30
"""Prepared examples of a file that need more memory are read in each epoch."""


@dataclass(frozen=True)
class LoadOptions:
    """What a loader needs besides the data section of a spec.

    Attributes:
        seed: That of the job.
        data_root: The folder that a path is relative to and cannot leave; None: any path.
        task: What the targets are; None: decided by the kind of model.
        memory_bytes: Examples that need more memory are not kept in it.
    """

    seed: int = 0
    data_root: Path | None = None
    task: TaskSpec | None = None
    memory_bytes: float = RESIDENT_BYTES


Loader = Callable[[Any, LoadOptions], Dataset]
"""(the spec's data part, the options) to a Dataset."""

LOADERS: dict[str, Loader] = {}


def register(*kinds: str) -> Callable[[Loader], Loader]:
    """Make the decorated function the loader of these kinds."""

    def add(loader: Loader) -> Loader:
        LOADERS.update(dict.fromkeys(kinds, loader))
        return loader

    return add


def load(
    spec: DataSpec,
    *,
    seed: int,
    data_root: Path | None = None,
    accumulate: int = 1,
    task: TaskSpec | None = None,
    dataset_files: Mapping[str, Path] | None = None,
) -> Dataset:
    """The data of a spec, with training examples for at least one step.

    A path in the spec is relative to `data_root` and cannot leave it; without a root any path is
    allowed. A dataset in the spec is read from its file in `dataset_files`. Raises InvalidData.
    """
    spec, data_root = _with_local_file(spec, data_root, dataset_files or {})
    dataset = LOADERS[spec.kind](spec, LoadOptions(seed, data_root, task))
    if spec.batch_size > len(dataset.train):
        raise InvalidData(
            getattr(spec, "path", spec.kind),
            "batch_size",
            expected=f"at most {len(dataset.train)}, the number of training examples "
            f"with validation_split {spec.validation_split or 0:g}",
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


def _with_local_file(
    spec: DataSpec, data_root: Path | None, dataset_files: Mapping[str, Path]
) -> tuple[DataSpec, Path | None]:
    """The spec with the path of its dataset's file, and the folder that the path is relative to.

    A file for all versions (`birds`) is used for each of them (`birds@3`).
    """
    if not isinstance(spec, FileData) or spec.dataset is None:
        return spec, data_root
    name = VersionReference.parse(spec.dataset).name
    file = dataset_files.get(spec.dataset) or dataset_files.get(name)
    if file is None:
        known = ", ".join(dataset_files) or "no datasets"
        expected = "a dataset with a local file, as in --dataset name=FILE"
        raise InvalidData(spec.dataset, "dataset", expected=expected, received=known)
    file = file.resolve()
    return spec.model_copy(update={"path": file.name, "dataset": None}), file.parent
