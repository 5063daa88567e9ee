"""The losses of packages that the operator has installed on the worker."""

from typing import Any, Final

import tensorflow as tf

from ampcore import plugins as packages
from ampcore.objectives.keras_losses import as_loss, example_losses
from ampspec.errors import InvalidModel
from ampspec.objectives.losses import PackageLoss

EXAMPLES: Final = 7
"""Of the batch that a loss is traced with: no usual size of an axis, to tell it from the others."""
FIELD: Final = f"{PackageLoss.section}.package"

Loss = Any
"""A keras.losses.Loss."""


def package_loss(spec: PackageLoss) -> Loss:
    """The loss that the package builds; raises InvalidModel where it cannot."""
    return as_loss(packages.build(spec, "a loss"), FIELD)


def check_package_loss(
    spec: PackageLoss, loss: Loss, targets: tf.TensorSpec, predictions: tf.TensorSpec
) -> None:
    """Trace a package's loss once, so that a mistake in it names the package.

    Args:
        spec: What names it.
        loss: The loss.
        targets: The shape and dtype of the targets of one example.
        predictions: Those of the output of the model for one example.

    Raises:
        InvalidModel: It cannot be traced, is not in float32, or returns no loss of each example.
    """
    if loss.dtype != "float32":
        raise InvalidModel(
            FIELD, expected=f"{spec.label} to compute in float32", received=str(loss.dtype)
        )

    def compute(y_true: Any, y_pred: Any) -> Any:
        return loss(y_true, y_pred), example_losses(loss, y_true, y_pred)

    batch = [
        tf.TensorSpec((EXAMPLES, *tensor.shape), tensor.dtype) for tensor in (targets, predictions)
    ]
    try:
        traced = tf.function(compute, autograph=False).get_concrete_function(*batch)
    except Exception as error:
        received = f"{type(error).__name__}: {error}"
    else:
        mean, of_examples = (tuple(tensor.shape) for tensor in traced.outputs)
        if mean == () and of_examples == (EXAMPLES,):
            return
        received = f"shape {list(of_examples if mean == () else mean)} for {EXAMPLES} examples"
    raise InvalidModel(
        FIELD,
        expected=f"{spec.label} to return the loss of each example, or their mean",
        received=received,
    )
