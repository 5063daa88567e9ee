"""Whether a checkpoint fits a job that wants to go on from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
from pydantic import JsonValue, ValidationError

from ampcore.checkpoint.finite import FLOATS
from ampcore.checkpoint.layout import Array, Arrays
from ampcore.checkpoint.manifest import Manifest
from ampcore.errors import IncompatibleCheckpoint
from ampcore.spec import JobSpec
from ampcore.spec.problems import shown

MAY_CHANGE: Final = (
    "name",
    "labels",
    "runtime",
    "guard",
    "precision",
    "loss_scale",
    "train.epochs",
    "train.steps",
    "train.eval_every_epochs",
    "train.checkpoint_every_s",
)
"""The fields that a job may change between two of its runs, with all that is in them."""

MAX_NAMED: Final = 8
"""So many differences stand in a message; the rest is counted."""

Wanted = Mapping[str, tuple[tuple[int, ...], str]]
"""By name of an array: its shape and the name of its dtype."""


@dataclass(frozen=True)
class Difference:
    """A field of the spec that is not as it was; None where there is no such field."""

    field: str
    before: JsonValue
    now: JsonValue

    def __str__(self) -> str:
        before, now = (shown(value) for value in (self.before, self.now))
        return f"{self.field} was {before} and is {now}"


def compatible(manifest: Manifest, spec: JobSpec) -> list[Difference]:
    """What the job changes of what it was when the checkpoint was saved.

    Raises IncompatibleCheckpoint when it changes what the state stands for: the model, the
    data, the optimizer, the seed, the size of a step.
    """
    differences = list(_differences("", _normalised(manifest.spec), spec.to_json()))
    refused = [difference for difference in differences if not _may_change(difference.field)]
    if refused:
        raise IncompatibleCheckpoint(
            f"The job cannot go on from its checkpoint after step {manifest.step}, because "
            f"{_listed(map(str, refused))}; put it back, or start the job anew."
        )
    return differences


def matched(arrays: Arrays, wanted: Wanted) -> dict[str, Array]:
    """The wanted arrays, each in its wanted dtype: all of them and no others.

    A float is cast to another kind of float. Raises IncompatibleCheckpoint when an array is
    missing, unknown, of another shape or kind, or holds a number too large for its new dtype.
    """
    found = {name: arrays[name] for name in wanted if name in arrays}
    problems = [f"{name} is missing" for name in wanted if name not in arrays]
    problems += [f"{name} is unknown" for name in arrays if name not in wanted]
    fitting = {}
    for name, array in found.items():
        shape, dtype = wanted[name]
        fitted = _fitted(array, tuple(shape), np.dtype(dtype))
        if isinstance(fitted, str):
            problems.append(f"{name} {fitted}")
        else:
            fitting[name] = fitted
    if problems:
        _refuse(problems)
    return fitting


def _refuse(problems: list[str]) -> NoReturn:
    raise IncompatibleCheckpoint(
        f"The checkpoint does not hold the state of this job: {_listed(iter(problems))}."
    )


def _fitted(array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | str:
    """The array in the dtype, or what is wrong with it."""
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
        return f"has numbers too large for {dtype.name}"
    return cast


def _normalised(spec: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """With the fields that were added since then, if it can still be read."""
    try:
        return JobSpec.model_validate(spec).to_json()
    except ValidationError:
        return spec


def _differences(field: str, before: JsonValue, now: JsonValue) -> Iterator[Difference]:
    """The smallest fields that differ; of parts of two kinds, the kind alone."""
    if before == now:
        return
    if not isinstance(before, dict) or not isinstance(now, dict):
        yield Difference(field, before, now)
        return
    names = [*before, *(name for name in now if name not in before)]
    if "kind" in names and before.get("kind") != now.get("kind"):
        names = ["kind"]
    for name in names:
        path = f"{field}.{name}" if field else name
        yield from _differences(path, before.get(name), now.get(name))


def _may_change(field: str) -> bool:
    return any(field == free or field.startswith(f"{free}.") for free in MAY_CHANGE)


def _listed(items: Iterator[str]) -> str:
    every = list(items)
    rest = len(every) - MAX_NAMED
    return ", ".join(every[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")
