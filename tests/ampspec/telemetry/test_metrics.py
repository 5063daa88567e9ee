import math

import pytest

from ampspec.telemetry.metrics import (
    MAX_METRICS,
    finite_metrics,
    is_metric,
    metrics_of,
    metrics_of_result,
)


@pytest.mark.parametrize(
    "name", ["val_loss", "val_top 5", "val_auc@0.5", "val_a/b:c+d", "val_f(β)%"]
)
def test_a_metric_is_named_after_what_it_validates(name):
    assert is_metric(name)


@pytest.mark.parametrize(
    "name", ["loss", "val_", "val_a ", "val_ b", "val_a>b", "val_a=b", "val_\0", f"val_{'x' * 97}"]
)
def test_other_names_are_no_metrics(name):
    assert not is_metric(name)


def test_the_main_metrics_come_first_and_other_data_is_ignored():
    data = {"val_auc": 1, "val_accuracy": 0.5, "note": 3, "val_loss": 2.0, "val_text": "high"}
    data |= {"val_bool": True, "val_none": None, "val_huge": 10**400}
    metrics = metrics_of(data)
    assert list(metrics.items()) == [("val_loss", 2.0), ("val_accuracy", 0.5), ("val_auc", 1.0)]


def test_non_finite_metrics_are_floats_in_either_form():
    metrics = metrics_of({"val_loss": "NaN", "val_accuracy": math.inf, "val_auc": "-Infinity"})
    assert math.isnan(metrics.pop("val_loss"))
    assert metrics == {"val_accuracy": math.inf, "val_auc": -math.inf}
    assert finite_metrics({**metrics, "val_mae": 1.0}) == {"val_mae": 1.0}


def test_an_evaluation_has_a_maximum_number_of_metrics():
    assert len(metrics_of({f"val_{n}": n for n in range(1000)})) == MAX_METRICS


@pytest.mark.parametrize("data", [None, [], "text", 7])
def test_damaged_data_has_no_metrics(data):
    assert metrics_of(data) == metrics_of_result(data) == {}


@pytest.mark.parametrize(
    ("result", "metrics"),
    [
        ({"val_loss": 0.5, "val_accuracy": None}, {"val_loss": 0.5}),
        ({"metrics": {"val_auc": 0.75}}, {"val_auc": 0.75}),
        (
            {"val_loss": 0.5, "metrics": {"val_auc": 0.75, "val_loss": 0.5}},
            {"val_loss": 0.5, "val_auc": 0.75},
        ),
        ({"val_loss": 0.5, "metrics": None}, {"val_loss": 0.5}),
    ],
)
def test_a_result_has_its_metrics_by_name_or_beside_them(result, metrics):
    assert metrics_of_result(result) == metrics
