"""Checks whether a job can resume from a checkpoint."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
from pydantic import JsonValue, ValidationError

from ampcore.checkpoint.file_format import Array, Arrays
from ampcore.checkpoint.finite import FLOATS
from ampcore.checkpoint.manifest import Manifest
from ampspec.data.stored_split import with_split_seed
from ampspec.documents.problems import format_value
from ampspec.documents.text import join_names, plural
from ampspec.errors import IncompatibleCheckpoint
from ampspec.jobs import JobSpec
from ampspec.jobs.checked import WITHOUT_RULES
from ampspec.training.run import RunSpec

CHANGEABLE_FIELDS: Final = (
    "name",
    "labels",
    "model.placement",
    "runtime",
    "telemetry",
    "guard",
    "diagnostics",
    "precision",
    "loss_scale",
    "optimizer.slots_per_weight",  # an estimate; the slots themselves are compared
    "train.epochs",
    "train.steps",
    "train.eval_every_epochs",
    "train.checkpoint_every_s",
    "train.best",
    "train.early_stopping",
    "train.keep",
    "train.export",
)
"""The fields that a job may change between two runs, including everything in them."""

STEP_FIELDS: Final = ("train.accumulate", "runtime.workers", "runtime.devices")
"""The fields whose product is the number of micro-batches in a step, which must stay."""

MAX_NAMED: Final = 8
"""The maximum number of differences in a message; the others are only counted."""

_AUTO_NUMBER: Final = re.compile(r"_\d+(?=[/._]|$)")
"""The number in the name of an unnamed layer; it differs between models of one process.

Keras names slots after weights with an underscore: `sgd/conv2d_4_kernel_momentum`.
"""

ExpectedArrays = Mapping[str, tuple[tuple[int, ...], str]]
"""By name of an array: its shape and the name of its dtype."""


@dataclass(frozen=True)
class FieldChange:
    """A field of the spec with its saved and its new value; None where there is no such field."""

    field: str
    saved_value: JsonValue
    new_value: JsonValue

    def __str__(self) -> str:
        saved_text, new_text = (format_value(value) for value in (self.saved_value, self.new_value))
        return f"{self.field} was {saved_text} and is {new_text}"


def check_compatible(manifest: Manifest, spec: RunSpec) -> list[FieldChange]:
    """Compare a job with the job that saved a checkpoint.

    Returns:
        The fields that differ, all of them changeable.

    Raises:
        IncompatibleCheckpoint: The job changes what the state depends on: the model, the data,
            the optimizer, the seed, the size of a step.
    """
    saved_spec, new_spec = _normalised(manifest.spec, type(spec)), spec.to_json()
    differences = list(_differences("", saved_spec, new_spec))
    keeps_batch = _micro_batches(saved_spec) == _micro_batches(new_spec)
    refused = [
        difference
        for difference in differences
        if not (
            keeps_batch
            if _is_in(difference.field, STEP_FIELDS)
            else _is_in(difference.field, CHANGEABLE_FIELDS)
        )
    ]
    if refused:
        raise IncompatibleCheckpoint(
            f"The job cannot resume from its checkpoint after {plural(manifest.step, 'step')}, "
            f"because {join_names(refused, MAX_NAMED)}; change it back, or start a new job."
        )
    return differences


def match_arrays(arrays: Arrays, expected_arrays: ExpectedArrays) -> dict[str, Array]:
    """The arrays of a checkpoint in the expected dtypes; a float is cast to another float.

    Raises:
        IncompatibleCheckpoint: An array is missing, unknown, of another shape or kind, or holds
            a number too large for its new dtype.
    """
    arrays = _with_expected_names(arrays, expected_arrays)
    named_arrays = {name: arrays[name] for name in expected_arrays if name in arrays}
    problems = [f"{name} is missing" for name in expected_arrays if name not in arrays]
    problems += [f"{name} is unknown" for name in arrays if name not in expected_arrays]
    result = {}
    for name, array in named_arrays.items():
        shape, dtype = expected_arrays[name]
        fitted = cast_array(array, tuple(shape), np.dtype(dtype))
        if isinstance(fitted, str):
            problems.append(f"{name} {fitted}")
        else:
            result[name] = fitted
    if problems:
        _refuse(problems)
    return result


def cast_array(array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | str:
    """The array in the dtype, or what is wrong with it; a float is cast to another float."""
    if array.shape != shape:
        return f"has the shape {list(array.shape)} instead of {list(shape)}"
    if array.dtype == dtype:
        return array
    if not {array.dtype, dtype} <= FLOATS:
        return f"is {array.dtype.name} instead of {dtype.name}"
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    # An infinity in the weights would look like an overflow of the first step.
    if (np.isfinite(array) & ~np.isfinite(cast)).any():
        return f"has values too large for {dtype.name}"
    return cast


def _with_expected_names(arrays: Arrays, expected_arrays: ExpectedArrays) -> Arrays:
    """The arrays, under the expected names where only numbers that Keras counted up differ.

    Names that are equal without numbers belong together: each to the same name if all of them
    occur on both sides, else in their order, if there are as many.
    """
    groups, expected_groups = _by_stem(arrays), _by_stem(expected_arrays)
    renamed: dict[str, str] = {}
    for stem, names in groups.items():
        expected_names = expected_groups.get(stem, [])
        is_renamed = len(expected_names) == len(names) and set(expected_names) != set(names)
        renamed |= zip(names, expected_names if is_renamed else names, strict=True)
    return {renamed[name]: array for name, array in arrays.items()}


def _by_stem(names: Iterable[str]) -> dict[str, list[str]]:
    """The names that are equal without the numbers that Keras counts up, in their order."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_AUTO_NUMBER.sub("", name), []).append(name)
    return groups


def _refuse(problems: list[str]) -> NoReturn:
    raise IncompatibleCheckpoint(
        f"The checkpoint does not match this job: {join_names(problems, MAX_NAMED)}."
    )


def _normalised(spec: dict[str, JsonValue], kind: type[RunSpec]) -> dict[str, JsonValue]:
    """The spec with the fields that later versions added, if it can be parsed."""
    try:
        return kind.model_validate(_as_saved(spec, kind), context=WITHOUT_RULES).to_json()
    except ValidationError:
        return spec


def _as_saved(spec: dict[str, JsonValue], kind: type[RunSpec]) -> dict[str, JsonValue]:
    """The spec with what versions before 0.6 did without saying it."""
    return with_split_seed(_with_pixels(spec)) if issubclass(kind, JobSpec) else spec


def _with_pixels(spec: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The spec, where versions before 0.6 divided the integers of an archive by 255."""
    data = spec.get("data")
    if not isinstance(data, dict) or data.get("kind") != "npz" or "preprocessing" in data:
        return spec
    return {**spec, "data": {**data, "preprocessing": {"x": {"rescaling": "pixels"}}}}


def _differences(field: str, saved_value: JsonValue, new_value: JsonValue) -> Iterator[FieldChange]:
    """The innermost fields that differ; for sections of different kinds, only the kind."""
    if saved_value == new_value:
        return
    if not isinstance(saved_value, dict) or not isinstance(new_value, dict):
        yield FieldChange(field, saved_value, new_value)
        return
    names = [*saved_value, *(name for name in new_value if name not in saved_value)]
    if "kind" in names and saved_value.get("kind") != new_value.get("kind"):
        names = ["kind"]
    for name in names:
        path = f"{field}.{name}" if field else name
        yield from _differences(path, saved_value.get(name), new_value.get(name))


def _micro_batches(spec: Mapping[str, Any]) -> int:
    """Those of a step on all ranks."""
    train, runtime = spec.get("train", {}), spec.get("runtime", {})
    ranks = runtime.get("workers", 1) * runtime.get("devices", 1)
    return int(ranks * train.get("accumulate", 1))


def _is_in(field: str, fields: Sequence[str]) -> bool:
    return any(field == parent or field.startswith(f"{parent}.") for parent in fields)
