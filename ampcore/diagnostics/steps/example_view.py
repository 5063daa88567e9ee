"""Shows examples of a step to people: as a picture, a text, or a row of values."""

import base64
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch, Dataset

MAX_VALUES: Final = 32
"""The maximum number of values of a row; those that are not finite come first."""
MAX_TEXT: Final = 500
MAX_SIDE: Final = 64
"""The maximum number of pixels on a side of a picture; larger ones are scaled down."""
PICTURE_CHANNELS: Final = (1, 3)

Json = dict[str, Any]


def example_rows(
    dataset: Dataset,
    batch: Batch,
    positions: Sequence[int],
    indices: NDArray[np.int64],
    losses: NDArray[np.float32],
) -> list[Json]:
    """The examples at some positions of a step's batch, as JSON values.

    Args:
        dataset: Their data, for their places and the names of columns and characters.
        batch: The examples of the step.
        positions: Which of them.
        indices: The index of each example of the batch in the training examples.
        losses: The loss of each, or none.
    """
    names = dataset.prepared.columns if dataset.prepared is not None else []
    rows = []
    for position in positions:
        inputs = _by_name(batch.x, position)
        rows.append(
            {
                "example": int(indices[position]),
                "position": int(position),
                "place": _place(dataset, int(indices[position])),
                "loss": float(losses[position]) if len(losses) else None,
                "nonfinite": sum(_count_nonfinite(value) for value in inputs.values()),
                "inputs": {
                    name: _view(value, names if len(inputs) == 1 else [name], dataset.characters)
                    for name, value in inputs.items()
                },
                "targets": {
                    name: _values(value, []) for name, value in _by_name(batch.y, position).items()
                },
            }
        )
    return rows


def _place(dataset: Dataset, example: int) -> Json | None:
    return None if dataset.place_of is None else dataclasses.asdict(dataset.place_of(example))


def _by_name(part: Any, position: int) -> dict[str, NDArray[Any]]:
    """The values of one example, by the name of the input or target."""
    if isinstance(part, Mapping):
        return {str(name): _at(value, position) for name, value in part.items()}
    flat = tf.nest.flatten(part)
    if len(flat) == 1:
        return {"": _at(flat[0], position)}
    return {str(number): _at(value, position) for number, value in enumerate(flat)}


def _at(part: Any, position: int) -> NDArray[Any]:
    return np.asarray(part[position])


def _count_nonfinite(value: NDArray[Any]) -> int:
    return int((~np.isfinite(value)).sum()) if value.dtype.kind == "f" else 0


def _view(value: NDArray[Any], names: Sequence[str], characters: str) -> Json:
    if characters and value.dtype.kind == "i":
        text = "".join(characters[key] for key in value.ravel().tolist())
        return {"kind": "text", "text": text[:MAX_TEXT], "length": len(text)}
    if _is_picture(value):
        return _picture(value)
    return _values(value, names)


def _is_picture(value: NDArray[Any]) -> bool:
    if value.dtype.kind != "f" or value.ndim not in (2, 3) or min(value.shape[:2]) < 4:
        return False
    return value.ndim == 2 or value.shape[2] in PICTURE_CHANNELS


def _picture(value: NDArray[Any]) -> Json:
    """A PNG, whose darkest pixel is the smallest finite value and whose brightest the largest."""
    pixels = value if value.ndim == 3 else value[..., None]
    finite = np.isfinite(pixels)
    low, high = (
        (float(pixels[finite].min()), float(pixels[finite].max())) if finite.any() else (0.0, 0.0)
    )
    step = math.ceil(max(pixels.shape[:2]) / MAX_SIDE)
    shown = np.where(finite, pixels.astype(np.float64), low)[::step, ::step]
    scaled = (shown - low) / (high - low) if high > low else np.zeros_like(shown)
    png = tf.io.encode_png((scaled * 255).astype(np.uint8)).numpy()
    return {
        "kind": "picture",
        "png": base64.b64encode(png).decode("ascii"),
        "shape": list(value.shape),
        "smallest": low,
        "largest": high,
    }


def _values(value: NDArray[Any], names: Sequence[str]) -> Json:
    flat = value.ravel()
    order = np.arange(flat.size)
    if flat.dtype.kind == "f":
        order = np.argsort(np.isfinite(flat), kind="stable")
    chosen = order[:MAX_VALUES].tolist()
    has_names = len(names) == flat.size
    return {
        "kind": "values",
        "values": [
            {"name": names[index] if has_names else str(index), "value": flat[index].item()}
            for index in chosen
        ],
        "shape": list(value.shape),
        "left_out": int(flat.size) - len(chosen),
    }
