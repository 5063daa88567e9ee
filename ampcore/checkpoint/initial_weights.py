"""Sets the weights that a job starts from, and reports which of the model's weights matched."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from ampcore.checkpoint.compatibility import cast_array
from ampcore.checkpoint.file_format import DTYPES
from ampcore.checkpoint.finite import array_is_finite
from ampcore.checkpoint.tensors import TensorFile, open_tensors
from ampcore.models.frozen_layers import check_patterns
from ampcore.models.task import Network
from ampcore.models.weight_names import NamedWeight, named_weights
from ampspec.documents.text import join_names, plural
from ampspec.errors import UnusableWeights
from ampspec.models.initial_weights import Init
from ampspec.tensor_header import TensorEntry

MAX_LISTED: Final = 50
"""The maximum number of names in each list of a report."""
MAX_NAMED: Final = 4
"""The maximum number of names in a sentence."""

DTYPES_BY_NAME: Final = {dtype.name: dtype for dtype in DTYPES.values()}


@dataclass(frozen=True)
class WeightsReport:
    """Which weights of the model were taken from the source.

    Attributes:
        source: What the weights are from, in words.
        matched: The weights that were taken.
        of: The weights of the layers that were to take them.
        unmatched_in_model: The names of weights without an array in the source.
        shape_differs: The name of each weight whose array has another shape, with both shapes.
        unused_in_source: The names of arrays that no weight has taken.
        frozen_at_random: The names of frozen weights that were not taken.
    """

    source: str
    matched: int
    of: int
    unmatched_in_model: tuple[str, ...]
    shape_differs: tuple[tuple[str, list[int], list[int]], ...]
    unused_in_source: tuple[str, ...]
    frozen_at_random: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The data of the event; long lists are cut, and `counts` has their lengths."""
        differs = [
            {"name": name, "model": shape, "source": source_shape}
            for name, shape, source_shape in self.shape_differs
        ]
        lists: dict[str, list[Any]] = {
            "unmatched_in_model": list(self.unmatched_in_model),
            "shape_differs": differs,
            "unused_in_source": list(self.unused_in_source),
        }
        return {
            "source": self.source,
            "matched": self.matched,
            "of": self.of,
            **{name: values[:MAX_LISTED] for name, values in lists.items()},
            "counts": {name: len(values) for name, values in lists.items()},
            "sentence": self.sentence,
        }

    @property
    def sentence(self) -> str:
        """What matched, in one sentence."""
        parts = [f"{self.matched} of {plural(self.of, 'weight')} start from {self.source}"]
        if self.unmatched_in_model:
            parts.append(f"not in it: {join_names(self.unmatched_in_model, MAX_NAMED)}")
        if self.shape_differs:
            names = [name for name, _, _ in self.shape_differs]
            parts.append(f"of another shape: {join_names(names, MAX_NAMED)}")
        if self.unused_in_source:
            parts.append(f"not used: {join_names(self.unused_in_source, MAX_NAMED)}")
        return f"{'; '.join(parts)}."


def source_text(init: Init, file: Path) -> str:
    """The source of the weights, in words."""
    if init.job is not None:
        return f"job {init.job}"
    return init.weights or file.name


def take_weights(networks: Sequence[Network], file: Path, init: Init) -> WeightsReport:
    """Assign the arrays of a file to the weights with their names and shapes.

    Floats are cast to the dtype of the weight: float32, but for policies with 16-bit weights.

    Raises:
        UnreadableWeights: The file is damaged, or is no safetensors file.
        UnusableWeights: Nothing matches; or a weight is missing, and `init.missing` is `error`; or
            an array is not finite or of another kind of numbers. No weight has changed then.
        InvalidModel: An expression of `init.layers` matches no layer.
    """
    weights = named_weights(networks)
    if init.layers is not None:
        paths = list(dict.fromkeys(weight.path for weight in weights))
        check_patterns("init.layers", init.layers, paths)
    selected_weights = [weight for weight in weights if _is_selected(weight.path, init)]
    with open_tensors(file) as source:
        report = _compare(selected_weights, source, source_text(init, file), weights, init.freeze)
        _check(report, selected_weights, source, init)
        differing = {name for name, _, _ in report.shape_differs}
        arrays = {
            weight.name: _read(source, weight)
            for weight in selected_weights
            if weight.name in source.entries and weight.name not in differing
        }
    for weight in selected_weights:
        if weight.name in arrays:
            weight.variable.assign(arrays[weight.name])
    return report


def _is_selected(path: str, init: Init) -> bool:
    return init.layers is None or any(re.search(pattern, path) for pattern in init.layers)


def _compare(
    selected_weights: Sequence[NamedWeight],
    source: TensorFile,
    text: str,
    weights: Sequence[NamedWeight],
    freeze: Sequence[str],
) -> WeightsReport:
    entries = source.entries
    missing = [weight.name for weight in selected_weights if weight.name not in entries]
    differs = [
        (weight.name, list(weight.variable.shape), list(entries[weight.name].shape))
        for weight in selected_weights
        if weight.name in entries and not _has_shape(entries[weight.name], weight)
    ]
    matched = {weight.name for weight in selected_weights} - {
        *missing,
        *(name for name, _, _ in differs),
    }
    frozen = [
        weight.name
        for weight in weights
        if weight.name not in matched and any(re.search(pattern, weight.path) for pattern in freeze)
    ]
    return WeightsReport(
        text,
        len(matched),
        len(selected_weights),
        tuple(missing),
        tuple(differs),
        tuple(name for name in entries if name not in matched),
        tuple(frozen),
    )


def _has_shape(entry: TensorEntry, weight: NamedWeight) -> bool:
    return tuple(entry.shape) == tuple(weight.variable.shape)


def _check(
    report: WeightsReport, selected_weights: Sequence[NamedWeight], source: TensorFile, init: Init
) -> None:
    if not report.matched:
        model_weights = join_names(
            [_described(w.name, w.variable.shape) for w in selected_weights], MAX_NAMED
        )
        source_weights = join_names(
            [_described(n, e.shape) for n, e in source.entries.items()], MAX_NAMED
        )
        raise UnusableWeights(
            "init",
            expected=f"weights with the names and shapes of the model: {model_weights}",
            received=source_weights,
        )
    if init.missing == "error" and (report.unmatched_in_model or report.shape_differs):
        raise UnusableWeights(
            "init.missing",
            expected=f"a source with all {report.of} weights, since missing is error",
            received=report.sentence.removesuffix("."),
        )


def _described(name: str, shape: Sequence[int]) -> str:
    return f"{name} {list(shape)}"


def _read(source: TensorFile, weight: NamedWeight) -> NDArray[Any]:
    array = source.read(weight.name)
    dtype = weight.variable.dtype
    cast = cast_array(array, tuple(weight.variable.shape), DTYPES_BY_NAME[dtype])
    if isinstance(cast, str):
        raise UnusableWeights(
            "init", expected=f"{weight.name} as {dtype}", received=f"an array that {cast}"
        )
    if not array_is_finite(cast):
        raise UnusableWeights(
            "init", expected=f"finite numbers in {weight.name}", received="NaN or infinity"
        )
    return cast
