"""The losses that a spec can name, against their formulas and against Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from pydantic import TypeAdapter

from ampcore.objectives import as_loss, build_loss, example_losses
from ampspec.objectives.losses import LossSpec

LOSS = TypeAdapter(LossSpec)
RANDOM = np.random.default_rng(0)
LOGITS = (3 * RANDOM.standard_normal((8, 5))).astype(np.float32)
CLASSES = RANDOM.integers(5, size=8)
LABELS = RANDOM.integers(2, size=(8, 5)).astype(np.float32)
ONE_HOT = np.eye(5, dtype=np.float32)[CLASSES]


def loss(document, *, has_classes=True):
    return build_loss(LOSS.validate_python(document), has_classes=has_classes)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_equals_that_of_keras(smoothing):
    expected = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=smoothing)
    found = loss({"kind": "cross_entropy", "label_smoothing": smoothing})(CLASSES, LOGITS)
    assert float(found) == pytest.approx(float(expected(ONE_HOT, LOGITS)), rel=1e-5)


def test_class_weights_multiply_the_loss_of_their_class():
    weights = (0.0, 1.0, 2.0, 3.0, 4.0)
    plain = example_losses(loss("cross_entropy"), CLASSES, LOGITS).numpy()
    found = example_losses(
        loss({"kind": "cross_entropy", "class_weights": list(weights)}), CLASSES, LOGITS
    )
    np.testing.assert_allclose(found, plain * np.array(weights)[CLASSES], rtol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_loss_of_classes_follows_its_formula(gamma):
    p = softmax(LOGITS.astype(np.float64))[np.arange(8), CLASSES]
    found = example_losses(loss({"kind": "focal", "gamma": gamma}), CLASSES, LOGITS)
    np.testing.assert_allclose(found, -((1 - p) ** gamma) * np.log(p), rtol=1e-4)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_focal_loss_of_certain_predictions_has_finite_gradients(gamma):
    for kind, targets in ((True, np.array([0])), (False, np.array([[1.0, 0.0]], np.float32))):
        logits = tf.Variable([[200.0, -200.0]])
        with tf.GradientTape() as tape:
            value = loss({"kind": "focal", "gamma": gamma}, has_classes=kind)(targets, logits)
        assert float(value) == pytest.approx(0.0, abs=1e-6)
        assert np.isfinite(tape.gradient(value, logits)).all()


def test_focal_loss_of_labels_equals_that_of_keras():
    expected = keras.losses.BinaryFocalCrossentropy(gamma=2.0, from_logits=True)
    found = loss({"kind": "focal"}, has_classes=False)(LABELS, LOGITS)
    assert float(found) == pytest.approx(float(expected(LABELS, LOGITS)), rel=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_binary_cross_entropy_equals_that_of_keras(smoothing):
    expected = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=smoothing)
    document = {"kind": "binary_cross_entropy", "label_smoothing": smoothing}
    found = loss(document, has_classes=False)(LABELS, LOGITS)
    assert float(found) == pytest.approx(float(expected(LABELS, LOGITS)), rel=1e-5)


def test_a_positive_weight_multiplies_the_loss_of_ones():
    document = {"kind": "binary_cross_entropy", "positive_weight": 3.0}
    found = example_losses(loss(document, has_classes=False), LABELS, LOGITS)
    entropy = -np.where(LABELS > 0, 3 * np.log(sigmoid(LOGITS)), np.log(1 - sigmoid(LOGITS)))
    np.testing.assert_allclose(found, entropy.mean(axis=1), rtol=1e-3)


@pytest.mark.parametrize("has_classes", [True, False])
def test_dice_follows_its_formula_over_the_whole_batch(has_classes):
    probabilities = softmax(LOGITS) if has_classes else sigmoid(LOGITS)
    targets = ONE_HOT if has_classes else LABELS
    both = (targets * probabilities).sum(axis=0)
    expected = 1 - ((2 * both + 1) / (targets.sum(axis=0) + probabilities.sum(axis=0) + 1)).mean()
    given = CLASSES if has_classes else LABELS
    found = loss("dice", has_classes=has_classes)(given, LOGITS)
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_dice_can_add_a_weighted_cross_entropy():
    both = loss({"kind": "dice", "cross_entropy": 0.5})(CLASSES, LOGITS)
    parts = loss("dice")(CLASSES, LOGITS) + 0.5 * loss("cross_entropy")(CLASSES, LOGITS)
    assert float(both) == pytest.approx(float(parts), rel=1e-5)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("mse", keras.losses.MeanSquaredError()),
        ("mae", keras.losses.MeanAbsoluteError()),
        ({"kind": "huber", "delta": 0.7}, keras.losses.Huber(0.7)),
    ],
)
def test_losses_of_numbers_equal_those_of_keras(document, expected):
    found = loss(document, has_classes=False)
    assert float(found(LABELS, LOGITS)) == pytest.approx(float(expected(LABELS, LOGITS)), rel=1e-5)
    column = found(LABELS[:, 0], LOGITS[:, :1])
    assert float(column) == pytest.approx(float(expected(LABELS[:, :1], LOGITS[:, :1])), rel=1e-5)


@pytest.mark.parametrize("document", ["cross_entropy", "focal", "dice", "mse", "mae", "huber"])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_losses_are_computed_in_float32_from_16_bit_outputs(document, dtype):
    outputs = tf.cast(LOGITS, dtype)
    targets = LABELS if document in {"mse", "mae", "huber"} else CLASSES
    value = loss(document)(targets, outputs)
    assert value.dtype == tf.float32
    assert float(value) == pytest.approx(
        float(loss(document)(targets, tf.cast(outputs, tf.float32))), rel=1e-6
    )


def test_pixels_have_a_loss_each():
    logits = RANDOM.standard_normal((2, 4, 3, 5)).astype(np.float32)
    classes = RANDOM.integers(5, size=(2, 4, 3))
    values = loss("cross_entropy").call(classes, tf.constant(logits))
    assert values.shape == (2, 4, 3)
    per_example = example_losses(loss("cross_entropy"), classes, logits)
    np.testing.assert_allclose(per_example, tf.reduce_mean(values, axis=(1, 2)), rtol=1e-6)


def test_names_functions_and_objects_are_losses_of_keras():
    def own(targets, predictions):
        return tf.abs(targets - predictions)

    assert as_loss("mse").name == "mse"
    assert as_loss(own).name == "own"
    given = keras.losses.MeanSquaredError()
    assert as_loss(given) is given


@pytest.mark.parametrize(
    "given",
    [
        *("mse", "poisson", "binary_crossentropy", "sparse_categorical_crossentropy"),
        lambda targets, predictions: (targets - predictions) ** 2,
    ],
)
def test_targets_without_the_last_axis_of_the_output_are_not_combined_with_all_others(given):
    """As in `fit`: (n,) and (n, 1) would be combined to (n, n)."""
    outputs = sigmoid(LOGITS[:, :1])
    targets = LABELS[:, 0] if given != "sparse_categorical_crossentropy" else np.zeros(8)
    found = example_losses(as_loss(given), targets, outputs)
    expected = example_losses(as_loss(given), targets[:, np.newaxis], outputs)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
