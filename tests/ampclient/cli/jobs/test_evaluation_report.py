"""`ampctl job evaluation-report`, and the same report in the SDK."""

import json
import sys
from importlib.util import find_spec
from types import ModuleType

import pytest

from ampclient import UnexpectedResponse, picture_bytes

PNG = "data:image/png;base64,iVBORw0KGgo="
KIND = {
    "kind": "class",
    "names": ["cat", "dog"],
    "accuracy": 0.75,
    "confusion": [[2, 1], [0, 1]],
    "confusions": [[0, 1, 1]],
    "classes": [
        {"class": 0, "examples": 3, "predicted": 2, "precision": 1.0, "recall": 2 / 3, "f1": 0.8},
        {"class": 1, "examples": 1, "predicted": 2, "precision": 0.5, "recall": 1.0, "f1": None},
    ],
    "curves": [
        {
            "class": 1,
            "auc": 0.875,
            "average_precision": 0.5,
            "roc": [[0, 0], [0.25, 1], [1, 1]],
            "precision_recall": [[0, 1], [1, 0.5]],
        }
    ],
}
FIGURES = {"mean_error": 0.5, "mae": 1.0, "rmse": 1.5, "r2": -0.25, "largest_error": "NaN"}
AGE = {
    "kind": "numbers",
    "names": None,
    "numbers": [
        {
            **FIGURES,
            "points": [[1.0, 2.0], [3.0, 3.0]],
            "histogram": {"edges": [-1, 0, 1], "counts": [1, 3]},
        }
    ],
}
WORST = {
    "row": 17,
    "loss": "NaN",
    "inputs": [{"name": "x", "picture": {"png": PNG, "low": 0, "high": 1}}],
    "outputs": {
        "kind": {"target": {"class": 0}, "prediction": {"class": 1}, "top": [[1, 0.9], [0, 0.1]]},
        "age": {"target": {"numbers": [1.0]}, "prediction": {"numbers": [2.5]}},
    },
}
REPORT = {
    "version": 1,
    "steps": 30,
    "is_best": True,
    "metrics": {"val_loss": 0.25},
    "examples": 4,
    "outputs": {"kind": KIND, "age": AGE},
    "worst": [WORST],
    "random": [],
}


@pytest.fixture
def job(server):
    server.add_job("a", state="succeeded")
    content = json.dumps(REPORT).encode()
    server.files["a"] = {"attempt-1/evaluation.json": b"{}", "attempt-2/evaluation.json": content}
    return "a"


def test_the_figures_and_the_worst_examples_are_printed(ampctl, job):
    text = ampctl("job", "evaluation-report", job).out
    assert "R2 is below 0: predicting the mean of the targets would be better." in text
    lines = [line.split() for line in text.splitlines()]
    for line in (
        ["CLASS", "EXAMPLES", "PREDICTED", "PRECISION", "RECALL", "F1", "AUC"],
        ["cat", "3", "2", "1", "0.6667", "0.8", "–"],
        ["dog", "1", "2", "0.5", "1", "–", "0.875"],
        ["cat", "dog", "1"],
        ["0.5", "1", "1.5", "-0.25", "NaN"],
        ["17", "NaN", "cat;", "1", "dog;", "2.5"],
    ):
        assert line in lines, line
    assert ampctl("job", "evaluation-report", job, "--json").json() == REPORT


def test_a_job_without_a_report_says_what_it_needs(ampctl, server):
    server.add_job("b", state="running")
    result = ampctl("job", "evaluation-report", "b")
    assert (result.code, result.out) == (1, "")
    assert "no report of its evaluation: it has not succeeded yet" in result.err


def test_the_sdk_has_arrays_and_figures(client, server, job):
    report = client.jobs.get(job).evaluation_report()
    assert repr(report) == "<EvaluationReport: 4 examples, outputs kind, age>"
    assert report.confusion().tolist() == KIND["confusion"]
    assert report.class_name(1) == "dog"
    assert report.roc().shape == (3, 2)
    assert report.points(output="age").tolist() == [[1, 2], [3, 3]]
    assert picture_bytes(report.worst[0]["inputs"][0]).startswith(b"\x89PNG")
    for lacking in (
        lambda: report.roc(0),
        lambda: report.confusion("age"),
        lambda: report.part("size"),
    ):
        with pytest.raises(KeyError):
            lacking()


class Recorder:
    """Takes every call, as the figures and axes of matplotlib do, and keeps them."""

    def __init__(self, *_, **__):
        self.calls = []

    def __getattr__(self, name):
        def call(*values, **options):
            self.calls.append((name, values, options))
            return (0.0, 1.0) if name == "get_xlim" else Recorder()

        return call

    def add_subplot(self, *_):
        self.calls.append(axes := Recorder())
        axes.figure = Recorder()
        return axes


def test_figures_have_the_plots_of_their_output(client, job, monkeypatch):
    """Without matplotlib itself: Keras imports it wherever it is installed."""
    report = client.jobs.get(job).evaluation_report()
    if find_spec("matplotlib") is None:
        with pytest.raises(ModuleNotFoundError, match="pip install matplotlib"):
            report.figure()
    monkeypatch.setitem(sys.modules, "matplotlib", ModuleType("matplotlib"))
    module = ModuleType("matplotlib.figure")
    module.Figure = Recorder
    monkeypatch.setitem(sys.modules, "matplotlib.figure", module)
    confusion, roc, precision_recall = report.figure().calls
    assert ("imshow", (KIND["confusion"],), {"cmap": "Blues"}) in confusion.calls
    assert roc.calls[0] == ("plot", ((0, 0.25, 1), (0, 1, 1)), {"label": "dog: 0.875"})
    assert precision_recall.calls[0][2] == {"label": "dog: 0.500"}
    points, errors = report.figure("age").calls
    assert points.calls[0] == ("plot", ((1.0, 3.0), (2.0, 3.0), "."), {"label": "number 1"})
    assert errors.calls[0] == ("stairs", ([1, 3], [-1, 0, 1]), {"label": "number 1"})


def test_a_file_that_is_no_report_is_an_error(client, server, job):
    server.files["a"]["attempt-2/evaluation.json"] = b'{"version": 2}'
    with pytest.raises(UnexpectedResponse, match="Expected a report of version 1"):
        client.jobs.get(job).evaluation_report()
