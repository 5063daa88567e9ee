"""The examples that a report shows: the worst ones, and some drawn at random."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch, Dataset
from ampcore.training.evaluation.report.outputs import (
    OUTPUTS,
    PREDICTED,
    SCORES,
    TOP_CLASSES,
    TOP_PROBABILITIES,
    ReportedOutput,
)
from ampcore.training.evaluation.report.pictures import as_picture, mask_picture, picture
from ampcore.training.evaluation.report.summaries import SEED, class_numbers

Array = NDArray[Any]

WORST: Final = 12
RANDOM: Final = 12
MAX_VALUES: Final = 32
"""The numbers of an array that are shown; of larger ones its shape and range."""
MAX_TEXT: Final = 500
MAX_INPUTS: Final = 40


class ChosenExamples(NamedTuple):
    """Indices of validation examples, (n,)."""

    worst: Array
    """By loss, the largest first."""
    random: Array


def choose_examples(losses: Array) -> ChosenExamples:
    """The examples with the largest losses, not finite ones first, and random ones."""
    ranked = np.argsort(-np.where(np.isfinite(losses), losses, np.inf), kind="stable")
    ordinary = ranked[WORST:]
    drawn = np.random.default_rng(SEED).permutation(len(ordinary))[:RANDOM]
    return ChosenExamples(ranked[:WORST], np.sort(ordinary[drawn]))


def describe_inputs(dataset: Dataset, batch: Batch, indices: Array) -> list[list[Any]]:
    """The inputs of some validation examples: as they are in the data, where they are columns.

    Args:
        dataset: The data.
        batch: The examples, prepared.
        indices: Theirs, ascending.
    """
    if dataset.read_raw_validation is None:
        arrays = _by_name(batch.x)
    else:
        arrays = dict(dataset.read_raw_validation(indices))
    names = list(arrays)[:MAX_INPUTS]
    return [
        [{"name": name, **_value(arrays[name][row], dataset.characters)} for name in names]
        for row in range(len(indices))
    ]


def describe_outputs(
    outputs: Mapping[str, ReportedOutput],
    targets: Mapping[str, Array],
    reduced: Mapping[str, Mapping[str, Array]],
    count: int,
) -> list[dict[str, Any]]:
    """The target and the prediction of each output, for each of the examples."""
    return [
        {
            name: _output(
                output, targets[name][row], {key: part[row] for key, part in reduced[name].items()}
            )
            for name, output in outputs.items()
            if reduced[name]
        }
        for row in range(count)
    ]


def _by_name(inputs: Any) -> dict[str, Array]:
    """The arrays of any structure of inputs."""
    if isinstance(inputs, Mapping):
        return {str(name): np.asarray(values) for name, values in inputs.items()}
    arrays = tf.nest.flatten(inputs)
    if len(arrays) == 1:
        return {"x": np.asarray(arrays[0])}
    return {f"input {index}": np.asarray(values) for index, values in enumerate(arrays, 1)}


def _value(value: Any, characters: str) -> dict[str, Any]:
    """What is shown of a value: a text, a picture, numbers, or the range of an array."""
    if value is None or isinstance(value, str | bytes):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return {"text": _short(text)}
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        return {"text": _short(", ".join(str(part) for part in array.reshape(-1).tolist()))}
    if characters and array.dtype.kind in "iu" and array.ndim == 1:
        return {"text": _short("".join(characters[key] for key in array.tolist()))}
    if (pixels := as_picture(array)) is not None:
        return {"picture": picture(pixels)}
    if array.size <= MAX_VALUES:
        return {"numbers": _numbers(array)}
    return {
        "array": {
            "shape": list(array.shape),
            "low": _number(array.min()),
            "high": _number(array.max()),
        }
    }


def _output(output: ReportedOutput, target: Any, reduced: Mapping[str, Array]) -> dict[str, Any]:
    target = np.asarray(target)
    if OUTPUTS in reduced:
        return {"prediction": _value(reduced[OUTPUTS], "")}
    if PREDICTED in reduced:
        predicted = reduced[PREDICTED]
        classes = class_numbers(target, predicted.ndim)
        if predicted.ndim == 2 and min(predicted.shape) > 1:
            return {
                "target": {"picture": mask_picture(classes)},
                "prediction": {"picture": mask_picture(predicted)},
                "wrong_share": float(np.mean(classes != predicted)),
            }
        if predicted.ndim:
            texts = _texts(output.names, classes, predicted) if predicted.ndim == 1 else {}
            return {**texts, "wrong_share": float(np.mean(classes != predicted))}
        top = zip(reduced[TOP_CLASSES].tolist(), reduced[TOP_PROBABILITIES].tolist(), strict=True)
        return {
            "target": {"class": int(classes)},
            "prediction": {"class": int(predicted)},
            "top": [[number, _number(share)] for number, share in top],
        }
    scores = _numbers(reduced[SCORES])
    kind = "labels" if output.kind == "labels" else "numbers"
    return {
        "target": {kind: _numbers(target.reshape(-1)[: len(scores)])},
        "prediction": {kind: scores},
    }


def _texts(
    names: Sequence[str] | None, classes: Array, predicted: Array
) -> dict[str, dict[str, str | None]]:
    """The characters at each position, if the classes are characters."""
    if names is None or any(len(name) != 1 for name in names):
        return {}
    parts = {"target": classes, "prediction": predicted}
    return {
        part: {"text": _short("".join(names[number] for number in numbers.tolist()))}
        for part, numbers in parts.items()
    }


def _numbers(values: Array) -> list[float]:
    return [_number(value) for value in values.reshape(-1).tolist()]


def _number(value: Any) -> float:
    """A number to seven digits, those of a float32."""
    return float(f"{float(value):.7g}")


def _short(text: str | None) -> str | None:
    if text is None or len(text) <= MAX_TEXT:
        return text
    return text[: MAX_TEXT - 1] + "…"


def rows_of(dataset: Dataset, indices: Array) -> Sequence[int]:
    """The rows of validation examples in the data, counted from 1."""
    rows = indices if dataset.validation_rows is None else dataset.validation_rows[indices]
    return [int(row) + 1 for row in rows]
