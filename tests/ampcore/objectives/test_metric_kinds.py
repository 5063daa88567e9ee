"""The metrics that a spec can name: their values, batch by batch."""

import keras
import numpy as np
import pytest
from pydantic import TypeAdapter

from ampcore.objectives import build_metric
from ampspec.objectives.metrics import MetricSpec, metric_name

METRIC = TypeAdapter(MetricSpec)
RANDOM = np.random.default_rng(1)
LOGITS = RANDOM.standard_normal((40, 3)).astype(np.float32)
CLASSES = RANDOM.integers(3, size=40)
PREDICTED = LOGITS.argmax(axis=1)
LABELS = RANDOM.integers(2, size=(40, 3)).astype(np.float32)


def value(document, targets, predictions, classes=3, *, has_classes=True):
    """The metric after the rows in batches of 16."""
    metric = build_metric(METRIC.validate_python(document), classes, has_classes=has_classes)
    states = metric.stateless_reset_state()
    for start in range(0, len(targets), 16):
        rows = slice(start, start + 16)
        states = metric.stateless_update_state(states, targets[rows], predictions[rows])
    return float(metric.stateless_result(states))


@pytest.mark.parametrize(
    "document",
    [
        *("accuracy", "precision", "recall", "f1", "iou", "auc", "mae", "mse", "rmse"),
        *("perplexity", {"kind": "top_k", "k": 2}, {"kind": "iou", "average": "micro"}),
    ],
    ids=str,
)
def test_a_metric_has_the_name_that_the_best_evaluation_is_chosen_by(document):
    spec = METRIC.validate_python(document)
    assert build_metric(spec, 3, has_classes=True).name == metric_name(spec)


def counts(kind):
    """The value of each class, from a confusion matrix."""
    matrix = np.zeros((3, 3))
    np.add.at(matrix, (CLASSES, PREDICTED), 1)
    both, actual, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    return {
        "precision": both / predicted,
        "recall": both / actual,
        "f1": 2 * both / (actual + predicted),
        "iou": both / (actual + predicted - both),
    }[kind]


@pytest.mark.parametrize("kind", ["precision", "recall", "f1", "iou"])
def test_metrics_of_classes_are_the_mean_over_classes(kind):
    assert value(kind, CLASSES, LOGITS) == pytest.approx(counts(kind).mean(), rel=1e-5)


@pytest.mark.parametrize("kind", ["precision", "recall", "f1"])
def test_micro_averages_of_classes_are_the_accuracy(kind):
    found = value({"kind": kind, "average": "micro"}, CLASSES, LOGITS)
    assert found == pytest.approx((CLASSES == PREDICTED).mean(), rel=1e-5)


def test_a_class_that_never_occurs_does_not_count():
    logits = np.concatenate([LOGITS, np.full((40, 1), -1e9, np.float32)], axis=1)
    assert value("iou", CLASSES, logits, 4) == pytest.approx(counts("iou").mean(), rel=1e-5)


@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_metrics_of_labels_count_logits_above_zero(kind):
    reference = {"precision": keras.metrics.Precision, "recall": keras.metrics.Recall}[kind]()
    reference.update_state(LABELS, (LOGITS > 0).astype(np.float32))
    document = {"kind": kind, "average": "micro"}
    found = value(document, LABELS, LOGITS, has_classes=False)
    assert found == pytest.approx(float(reference.result()), rel=1e-5)


def test_pixels_count_as_examples():
    logits, classes = LOGITS.reshape(2, 4, 5, 3), CLASSES.reshape(2, 4, 5)
    assert value("iou", classes, logits) == pytest.approx(counts("iou").mean(), rel=1e-5)


def test_the_average_that_is_not_the_default_is_part_of_the_name():
    documents = ["precision", {"kind": "precision", "average": "micro"}]
    made = [build_metric(METRIC.validate_python(one), 3, has_classes=True) for one in documents]
    assert [metric.name for metric in made] == ["precision", "precision_micro"]


def test_accuracy_and_top_k_follow_the_largest_logits():
    assert value("accuracy", CLASSES, LOGITS) == pytest.approx((CLASSES == PREDICTED).mean())
    best = np.argsort(-LOGITS, axis=1)[:, :2]
    expected = (best == CLASSES[:, None]).any(axis=1).mean()
    assert value({"kind": "top_k", "k": 2}, CLASSES, LOGITS) == pytest.approx(expected)


def test_the_accuracy_of_labels_counts_logits_above_zero():
    found = value("accuracy", LABELS, LOGITS, has_classes=False)
    assert found == pytest.approx(((LOGITS > 0) == (LABELS > 0)).mean())


def exact_auc(labels, scores):
    """The share of pairs of a positive and a negative example in the right order."""
    pairs = scores[labels > 0][:, None] - scores[labels == 0][None]
    return ((pairs > 0) + 0.5 * (pairs == 0)).mean()


def test_auc_of_two_classes_and_of_several():
    scores = LOGITS[:, 1] - LOGITS[:, 0]
    two = (CLASSES > 0).astype(int)
    assert value("auc", two, LOGITS[:, :2], 2) == pytest.approx(exact_auc(two, scores), abs=0.02)
    probabilities = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    every = np.mean([exact_auc(number == CLASSES, probabilities[:, number]) for number in range(3)])
    assert value("auc", CLASSES, LOGITS) == pytest.approx(every, abs=0.02)


def test_auc_of_labels():
    one = exact_auc(LABELS[:, 0], LOGITS[:, 0])
    found = value("auc", LABELS[:, :1], LOGITS[:, :1], 1, has_classes=False)
    assert found == pytest.approx(one, abs=0.02)


def test_differences_are_exact_over_batches_of_different_size():
    targets, predictions = LABELS[:, 0], LOGITS[:, :1]
    difference = targets - predictions[:, 0]
    options = {"classes": 1, "has_classes": False}
    assert value("mae", targets, predictions, **options) == pytest.approx(
        np.abs(difference).mean(), rel=1e-5
    )
    assert value("rmse", targets, predictions, **options) == pytest.approx(
        np.sqrt((difference**2).mean()), rel=1e-5
    )


def test_perplexity_is_the_exponential_of_the_mean_cross_entropy():
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(CLASSES, LOGITS)
    assert value("perplexity", CLASSES, LOGITS) == pytest.approx(np.exp(float(entropy)), rel=1e-5)
