"""What is kept of the outputs of a network for a report: predictions and scores, in the graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import keras
import tensorflow as tf

from ampcore.data import Dataset
from ampcore.models.task import Task
from ampcore.objectives import FunctionLoss
from ampspec.objectives.task import TargetKind

Tensor = Any

MAX_POSITION_CLASSES: Final = 100
"""The next token of a text is one of more classes: their confusion says nothing."""
MAX_SCORED: Final = 20
"""Of an output with more classes, labels or numbers not all scores of an example are kept."""
MATRIX_RANK: Final = 2
"""Outputs with more axes have positions: steps of a sequence, pixels."""
DECISION: Final = 0.5
"""The probability from which a label counts as predicted."""
TOP: Final = 5
"""The classes of an example whose probabilities are shown."""
PREDICTED: Final = "predicted"
SCORES: Final = "scores"
TOP_CLASSES: Final = "top"
TOP_PROBABILITIES: Final = "top_probability"
OUTPUTS: Final = "outputs"

KERAS_LOSSES: Final[Mapping[Any, TargetKind]] = {
    keras.losses.SparseCategoricalCrossentropy: "class",
    keras.losses.CategoricalCrossentropy: "class",
    keras.losses.CategoricalFocalCrossentropy: "class",
    keras.losses.BinaryCrossentropy: "labels",
    keras.losses.BinaryFocalCrossentropy: "labels",
    keras.losses.MeanSquaredError: "numbers",
    keras.losses.MeanAbsoluteError: "numbers",
    keras.losses.MeanAbsolutePercentageError: "numbers",
    keras.losses.MeanSquaredLogarithmicError: "numbers",
    keras.losses.Huber: "numbers",
    keras.losses.LogCosh: "numbers",
}
"""What a loss of Keras compares, where the data has no signature."""
KERAS_FUNCTIONS: Final[Mapping[Any, TargetKind]] = {
    keras.losses.sparse_categorical_crossentropy: "class",
    keras.losses.categorical_crossentropy: "class",
    keras.losses.categorical_focal_crossentropy: "class",
    keras.losses.binary_crossentropy: "labels",
    keras.losses.binary_focal_crossentropy: "labels",
    keras.losses.mean_squared_error: "numbers",
    keras.losses.mean_absolute_error: "numbers",
    keras.losses.mean_absolute_percentage_error: "numbers",
    keras.losses.mean_squared_logarithmic_error: "numbers",
    keras.losses.huber: "numbers",
    keras.losses.log_cosh: "numbers",
}
"""The same for functions, which are called with the predictions as probabilities."""


@dataclass(frozen=True)
class ReportedOutput:
    """An output of a network, and what its values mean.

    Attributes:
        kind: The kind of its targets; those of `input` are the inputs.
        values: Whether it has logits or probabilities; numbers are neither.
        names: The names of the classes or labels; None: they have only numbers.
    """

    kind: TargetKind
    values: Literal["logits", "probabilities"] = "logits"
    names: tuple[str, ...] | None = None

    def reduce(self, outputs: Tensor) -> dict[str, Tensor]:
        """What is kept of the outputs of a batch, float32 (n, …), by name.

        Returns:
            For classes, and one label for each position, `predicted` (n, …), and the likeliest
            `top` of an example with their `top_probability`; `scores` (n, k): the probabilities of
            at most 20 classes or the first 20 labels, or the first 20 numbers. For an `input` the
            `outputs`. Nothing of outputs that a report only counts.
        """
        if self.kind == "input":
            return {OUTPUTS: outputs}
        if self.kind == "class":
            return self._reduce_classes(outputs)
        is_logit = self.kind == "labels" and self.values == "logits"
        values = tf.sigmoid(outputs) if is_logit else outputs
        is_small = (outputs.shape[1:].num_elements() or MAX_SCORED + 1) <= MAX_SCORED
        if outputs.shape.rank <= MATRIX_RANK or (self.kind == "numbers" and is_small):
            return {SCORES: tf.reshape(values, [tf.shape(values)[0], -1])[:, :MAX_SCORED]}
        if self.kind == "labels" and outputs.shape[-1] == 1:
            return {PREDICTED: tf.cast(values[..., 0] > DECISION, tf.int32)}
        return {}

    def _reduce_classes(self, outputs: Tensor) -> dict[str, Tensor]:
        classes, has_positions = outputs.shape[-1], outputs.shape.rank > MATRIX_RANK
        if has_positions and classes > MAX_POSITION_CLASSES:
            return {}
        reduced = {PREDICTED: tf.argmax(outputs, axis=-1, output_type=tf.int32)}
        if not has_positions:
            probabilities = tf.nn.softmax(outputs) if self.values == "logits" else outputs
            top = tf.math.top_k(probabilities, min(TOP, classes))
            reduced |= {TOP_CLASSES: top.indices, TOP_PROBABILITIES: top.values}
            if classes <= MAX_SCORED:
                reduced[SCORES] = probabilities
        return reduced


def reported_outputs(task: Task, dataset: Dataset) -> dict[str, ReportedOutput]:
    """The outputs that a report is about, by name; without any of a task that compares none.

    What an output means is known from the targets of the data, and without a signature from its
    loss, if it is one of Keras.
    """
    losses = task.output_losses()
    if dataset.signature is None:
        kinds = {name: _kind_of(loss) for name, loss in losses.items()}
        return {
            name: ReportedOutput(kind, _values(losses[name]))
            for name, kind in kinds.items()
            if kind is not None
        }
    targets = dataset.signature.targets
    if len(losses) == len(targets) == 1:
        # The only output of a custom model has a name of its own.
        targets = dict(zip(losses, targets.values(), strict=True))
    characters = tuple(dataset.characters) or None
    return {
        name: ReportedOutput(targets[name].kind, _values(loss), targets[name].names or characters)
        for name, loss in losses.items()
        if name in targets
    }


def _kind_of(loss: Any) -> TargetKind | None:
    """What a loss compares; None of one that a person wrote."""
    if isinstance(loss, FunctionLoss):
        return KERAS_FUNCTIONS.get(loss.function)
    return KERAS_LOSSES.get(type(loss))


def _values(loss: Any) -> Literal["logits", "probabilities"]:
    """What a loss takes: some losses of Keras say that it is probabilities."""
    if isinstance(loss, FunctionLoss) and loss.function in KERAS_FUNCTIONS:
        return "probabilities"
    return "logits" if getattr(loss, "from_logits", True) else "probabilities"
