"""The registry of data loaders by kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ampcore.data.dataset import Dataset
from ampcore.data.files import resolve_path
from ampspec.data.data import DataSpec, FileData, PackageData
from ampspec.errors import InvalidData
from ampspec.objectives.task import TaskSpec
from ampspec.references.dataset_reference import VersionReference
from ampspec.references.object_url import is_url
from ampspec.rules.data_rules import step_problems

RESIDENT_BYTES: Final = 4 * 2**30
"""Prepared examples of a file that need more memory are read in each epoch."""


@dataclass(frozen=True)
class LoadOptions:
    """What a loader needs besides the data section of a spec.

    Attributes:
        memory_bytes: Examples that need more memory are not kept in it.
        data_root: The folder that a path is relative to and cannot leave; None: any path.
        task: What the targets are; None: decided by the kind of model.
    """

    memory_bytes: float
    data_root: Path | None = None
    task: TaskSpec | None = None


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
    data_root: Path | None = None,
    accumulate: int = 1,
    task: TaskSpec | None = None,
    dataset_files: Mapping[str, Path] | None = None,
) -> Dataset:
    """The data of a spec, with training examples for at least one step.

    A path in the spec is relative to `data_root` and cannot leave it; without a root any path is
    allowed. A dataset in the spec is read from its file in `dataset_files`. Raises InvalidData.
    """
    dataset = load_unchecked(spec, data_root=data_root, task=task, dataset_files=dataset_files)
    check_fills_step(spec, dataset, accumulate)
    return dataset


def load_unchecked(
    spec: DataSpec,
    *,
    data_root: Path | None = None,
    task: TaskSpec | None = None,
    dataset_files: Mapping[str, Path] | None = None,
) -> Dataset:
    """The same, also with too few examples for a step."""
    spec, data_root = _with_local_file(spec, data_root, dataset_files or {})
    return LOADERS[spec.kind](spec, LoadOptions(RESIDENT_BYTES, data_root, task))


def check_fills_step(spec: DataSpec, dataset: Dataset, accumulate: int) -> None:
    """Raise InvalidData unless the training examples fill at least one step."""
    examples = f"training examples{_besides_validation(dataset)}"
    for problem in step_problems(spec, accumulate, len(dataset.train), examples):
        field = problem.pointer[1:].replace("/", ".").removeprefix("data.")
        received = problem.received or "none"
        raise InvalidData(_name(spec), field, expected=problem.expected, received=received)


def local_path(
    spec: DataSpec, data_root: Path | None, dataset_files: Mapping[str, Path]
) -> Path | None:
    """The file or folder that a spec names, as `load` finds it; None for data without one.

    Raises InvalidData.
    """
    spec, data_root = _with_local_file(spec, data_root, dataset_files)
    path = getattr(spec, "path", None)
    return None if path is None else resolve_path(path, data_root)


def _besides_validation(dataset: Dataset) -> str:
    count = len(dataset.validation) if dataset.validation is not None else 0
    return f" besides {count} for validation" if count else ""


def _name(spec: DataSpec) -> str:
    if isinstance(spec, PackageData):
        return spec.label
    return spec.file_reference if isinstance(spec, FileData) else spec.kind


def _with_local_file(
    spec: DataSpec, data_root: Path | None, dataset_files: Mapping[str, Path]
) -> tuple[DataSpec, Path | None]:
    """The spec with the path of its dataset's file, and the folder that the path is relative to.

    A file for all versions (`birds`) is used for each of them (`birds@3`). An object of a store is
    read from a file that a worker has downloaded.
    """
    if not isinstance(spec, FileData) or (spec.dataset is None and not is_url(spec.path)):
        return spec, data_root
    reference = spec.file_reference
    name = VersionReference.parse(reference).name if spec.dataset is not None else reference
    file = dataset_files.get(reference) or dataset_files.get(name)
    if file is None:
        dataset_names = ", ".join(dataset_files) or "no datasets"
        field, expected = "dataset", "a dataset with a local file, as in --dataset name=FILE"
        if spec.dataset is None:
            field, expected = "path", "a local path: only workers download objects of a store"
        raise InvalidData(reference, field, expected=expected, received=dataset_names)
    file = file.resolve()
    return spec.model_copy(update={"path": file.name, "dataset": None}), file.parent
