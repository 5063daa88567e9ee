"""The figures of a report against their definitions, counted one by one."""

import json

import numpy as np
import pytest

from ampcore.training.evaluation.report.curves import POINTS, binary_curves
from ampcore.training.evaluation.report.outputs import PREDICTED, SCORES, ReportedOutput
from ampcore.training.evaluation.report.summaries import MAX_MATRIX, summary_of


def summarized(output, *batches):
    """The part of a report about batches of targets and what is kept of the outputs."""
    summary = summary_of(output, batches[0][1])
    for targets, reduced in batches:
        summary.add(np.asarray(targets), reduced)
    document = summary.to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return document


def test_the_area_is_the_share_of_pairs_in_the_right_order():
    random = np.random.default_rng(0)
    scores = random.integers(0, 12, 80) / 12  # with ties
    positive = random.random(80) < 0.4
    differences = scores[positive][:, None] - scores[~positive][None]
    curves = binary_curves(scores, positive)
    assert curves["auc"] == pytest.approx(((differences > 0) + 0.5 * (differences == 0)).mean())
    # The precision at each threshold, weighted with the recall that it adds.
    thresholds = np.unique(scores)[::-1]
    precision = [positive[scores >= threshold].mean() for threshold in thresholds]
    recall = [positive[scores >= threshold].sum() / positive.sum() for threshold in thresholds]
    expected = np.sum(np.diff([0, *recall]) * precision)
    assert curves["average_precision"] == pytest.approx(expected)


def test_a_curve_has_few_points_and_both_ends():
    random = np.random.default_rng(1)
    curves = binary_curves(random.random(50_000), random.random(50_000) < 0.01)
    for name in ("roc", "precision_recall"):
        assert len(curves[name]) <= POINTS
    assert (curves["roc"][0], curves["roc"][-1]) == ([0, 0], [1, 1])
    assert binary_curves(random.random(5), np.zeros(5, bool)) is None


def test_confusions_precision_and_recall_are_those_of_the_pairs():
    batches = [([0, 0, 1], [0, 1, 1]), ([[2], [2], [1]], [0, 2, 1])]
    document = summarized(
        ReportedOutput("class", names=("a", "b", "c")),
        *((targets, {PREDICTED: np.array(guesses)}) for targets, guesses in batches),
    )
    assert document["confusion"] == [[1, 1, 0], [0, 2, 0], [1, 0, 1]]
    assert sorted(document["confusions"]) == [[0, 1, 1], [2, 0, 1]]
    assert document["accuracy"] == pytest.approx(4 / 6)
    second = document["classes"][1]
    assert second["examples"] == 2
    assert second["precision"] == pytest.approx(2 / 3)
    assert second["recall"] == 1.0
    assert second["f1"] == pytest.approx(0.8)


def test_one_hot_targets_and_pixels_are_classes():
    one_hot = summarized(
        ReportedOutput("class"), (np.eye(3)[[2, 0]], {PREDICTED: np.array([2, 1])})
    )
    assert one_hot["confusion"] == [[0, 1, 0], [0, 0, 0], [0, 0, 1]]
    pixels = summarized(
        ReportedOutput("class"),
        (np.array([[[0, 1], [1, 1]]]), {PREDICTED: np.array([[[0, 0], [1, 1]]])}),
    )
    assert pixels["confusion"] == [[1, 0], [1, 2]]


def test_of_many_classes_only_confusions_are_listed():
    targets = np.arange(MAX_MATRIX + 1)
    document = summarized(ReportedOutput("class"), (targets, {PREDICTED: np.roll(targets, 1)}))
    assert "confusion" not in document
    assert len(document["confusions"]) == MAX_MATRIX


def test_labels_are_decided_one_by_one():
    labels = np.array([[1, 0], [1, 1], [0, 1]])
    scores = np.array([[0.9, 0.1], [0.2, 0.7], [0.6, 0.8]], np.float32)
    document = summarized(ReportedOutput("labels"), (labels, {SCORES: scores}))
    first, second = document["classes"]
    assert (first["precision"], first["recall"]) == (0.5, 0.5)
    assert (second["precision"], second["recall"]) == (1.0, 1.0)
    assert [curve["auc"] for curve in document["curves"]] == [0.5, 1.0]


def test_probabilities_that_are_right_as_often_as_they_claim_are_calibrated():
    scores = np.tile(np.array([[0.25, 0.75]], np.float32), (8, 1))
    targets = np.array([1, 1, 1, 0] * 2)
    kept = {PREDICTED: scores.argmax(axis=1), SCORES: scores}
    document = summarized(ReportedOutput("class"), (targets, kept))
    assert document["calibration"]["expected_error"] == pytest.approx(0.0)
    assert document["calibration"]["bins"] == [
        {"examples": 8, "confidence": 0.75, "accuracy": 0.75}
    ]


def test_errors_of_numbers_are_predictions_minus_targets():
    targets = np.arange(600.0)
    document = summarized(ReportedOutput("numbers"), (targets, {SCORES: targets[:, None] + 2}))
    [number] = document["numbers"]
    assert (number["mean_error"], number["mae"], number["rmse"]) == (2.0, 2.0, 2.0)
    assert number["r2"] == pytest.approx(1 - 4 / targets.var())
    assert sum(number["histogram"]["counts"]) == 600
    assert len(number["points"]) == 500
    assert all(prediction == target + 2 for target, prediction in number["points"])


def test_scores_that_are_not_finite_give_no_curves():
    scores = np.array([[np.nan, np.nan], [0.2, 0.8]], np.float32)
    kept = {PREDICTED: np.array([0, 1]), SCORES: scores}
    document = summarized(ReportedOutput("class"), (np.array([0, 1]), kept))
    assert "curves" not in document
    assert document["confusion"] == [[1, 0], [0, 1]]


def test_targets_that_are_not_finite_give_no_errors_of_numbers():
    kept = {SCORES: np.zeros((2, 1), np.float32)}
    assert summarized(ReportedOutput("numbers"), (np.array([np.nan, 1.0]), kept)) == {}


def test_a_target_that_is_no_class_is_an_error():
    with pytest.raises(ValueError, match="the class -1"):
        summarized(ReportedOutput("class"), (np.array([-1, 0]), {PREDICTED: np.array([0, 0])}))
