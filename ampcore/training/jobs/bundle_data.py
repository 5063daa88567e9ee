"""The examples that the function of a bundle returns instead of those of the spec."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from ampcore.allocation_errors import out_of_memory
from ampcore.data import Batch, Dataset
from ampcore.data.batches import BatchSource, arrives_in_batches
from ampcore.data.local import LocalDataset, local_dataset
from ampcore.data.sources.column_data import DEFAULT_SPLIT
from ampcore.training.jobs.from_keras import check_batch_size
from ampcore.user_code.module import explain, last_line
from ampspec.errors import CodeFailed, InvalidData, InvalidModel, TrainingError
from ampspec.jobs import JobSpec

DATA_FIELDS: Final = ("data", "validation_data", "steps_per_epoch")
"""What the function may return about its data, as the arguments of `Trainer.from_keras`."""


class BundleBatches(BatchSource):
    """The batches of a bundle; errors name its function, or the line of its code.

    Args:
        source: The batches.
        name: What errors call them.
        folder: The code.
    """

    def __init__(self, source: BatchSource, name: str, folder: Path) -> None:
        self.name, self.can_rewind = name, source.can_rewind
        self.batch_size, self.batches, self.spec = source.batch_size, source.batches, source.spec
        self._source, self._folder = source, folder

    def epoch(self, number: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch from the one with index `first` on."""
        with errors_named(self.name), _code_errors(self.name, self._folder):
            yield from self._source.epoch(number, first)


def bundle_data(
    fields: Mapping[str, Any], spec: JobSpec, entry: str, folder: Path
) -> LocalDataset | None:
    """The examples that the function returned; None if it left them to the spec.

    Args:
        fields: What the function returned, by name.
        spec: `data` says the batch size, whether arrays are shuffled, and their validation share.
        entry: The function, in errors: `net:build`.
        folder: The code.

    Raises:
        InvalidData: They have another form than those of `Trainer.from_keras`.
        InvalidModel: A part of the spec does not fit them.
        CodeFailed: Reading the first batch raised an error.
    """
    if fields.get("data") is None:
        if extra := [name for name in DATA_FIELDS if fields.get(name) is not None]:
            raise InvalidModel(
                "model.build",
                expected=f"that {entry} returns data with its {' and '.join(extra)}, or neither",
                received=f"{' and '.join(extra)} without data",
            )
        return None
    if preprocessing := getattr(spec.data, "preprocessing", None):
        raise InvalidModel(
            "data.preprocessing",
            expected=f"none, since {entry} returns the data as the model takes it",
            received=", ".join(preprocessing),
        )
    is_stream = arrives_in_batches(fields["data"])
    name = f"data of {entry}"
    with errors_named(name), _code_errors(name, folder):
        dataset = local_dataset(
            fields["data"],
            validation_data=fields.get("validation_data"),
            validation_split=0.0 if is_stream else _validation_share(spec),
            batch_size=None if is_stream else spec.data.batch_size,
            steps_per_epoch=fields.get("steps_per_epoch"),
            shuffle=spec.data.shuffle,
            seed=spec.train.seed,
        )
        if dataset.batch_size != spec.data.batch_size:
            raise InvalidModel(
                "data.batch_size",
                expected=f"{dataset.batch_size}, the size of the batches that {entry} returns",
                received=str(spec.data.batch_size),
            )
        check_batch_size(dataset, spec.train.accumulate)
    return replace(
        dataset,
        train=_explained(dataset.train, name, folder),
        validation=_explained(dataset.validation, f"validation_{name}", folder),
    )


def check_like(returned_data: LocalDataset, spec_data: Dataset, entry: str) -> None:
    """Raise InvalidData unless the examples have the form of those of the spec.

    Without a loss of the bundle the task of the spec decides, for the targets of the spec's data.
    """
    expected, received = (
        _form(examples.spec) for examples in (spec_data.train, returned_data.train)
    )
    if expected != received:
        raise InvalidData(
            f"data of {entry}",
            None,
            expected=f"examples as those of the spec's data, {expected}, since {entry} returns no "
            "loss",
            received=received,
        )


def _form(spec: Batch) -> str:
    """The shapes of the inputs and targets, and whether they are integers."""

    def text(tensor: tf.TensorSpec) -> str:
        kind = "integers" if tensor.dtype.is_integer or tensor.dtype.is_bool else tensor.dtype.name
        return f"{kind} of shape {list(tensor.shape)}"

    x, y, _ = spec.map(text)
    return f"x: {x}, y: {y}"


def _validation_share(spec: JobSpec) -> float:
    share: float | None = getattr(spec.data, "validation_split", 0.0)
    return DEFAULT_SPLIT if share is None else share


def _explained(examples: Any, name: str, folder: Path) -> Any:
    if not isinstance(examples, BatchSource):
        return examples
    return BundleBatches(examples, name, folder)


@contextmanager
def errors_named(name: str) -> Iterator[None]:
    """Errors about `data` and `validation_data` call them by the function that returned them."""
    try:
        yield
    except InvalidData as error:
        if error.source not in {"data", "validation_data"}:
            raise
        source = name.replace("data of", "validation_data of", 1)
        raise InvalidData(
            name if error.source == "data" or name.startswith("validation") else source,
            error.field,
            expected=error.expected,
            received=error.received,
        ) from error


@contextmanager
def _code_errors(name: str, folder: Path) -> Iterator[None]:
    """Turn errors while examples are read into CodeFailed."""
    try:
        yield
    except TrainingError:
        raise
    except (Exception, SystemExit) as error:
        explanation = explain(error, folder)
        if (full := out_of_memory(error, name)) is not None:
            raise full from error
        raise CodeFailed(f"{name}: {explanation or last_line(error)}") from error
