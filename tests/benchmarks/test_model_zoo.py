"""The zoo of models: a sample through the real checks, and that the checks can fail."""

import dataclasses
import importlib
import itertools
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.waiting import DEADLINE_S

SAMPLE = {
    "stateful_lstm": "passed",
    "recommender": "documented",
    "detector": "passed",
    "moving_normalization": "passed",
    "wide_and_deep": "passed",
    "distillation_compute_loss": "passed",
}


@pytest.fixture
def zoo(monkeypatch, request):
    """Imports a module of the zoo."""
    monkeypatch.syspath_prepend(request.config.rootpath / "benchmarks")
    return lambda name: importlib.import_module(f"zoo.{name}")


def test_the_zoo_has_every_model_of_keras_applications_and_seventy_in_all(zoo):
    names = {architecture.name for architecture in zoo("registry").architectures()}
    applications = {
        name
        for name, function in vars(keras.applications).items()
        if callable(function) and name[0].isupper()
    }
    assert applications <= names
    assert len(names) >= 70


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_a_model_of_the_sample_passes(request, name):
    root = request.config.rootpath
    completed = subprocess.run(
        [sys.executable, root / "benchmarks" / "model_zoo.py", "--json", name],
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=4 * DEADLINE_S,  # it trains a model in five ways
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    [row] = json.loads(completed.stdout)["rows"]
    assert row["name"] == name
    statuses = {outcome["status"] for outcome in row["outcomes"].values()}
    assert statuses <= {"passed", SAMPLE[name]}, row
    assert SAMPLE[name] in statuses, row


@pytest.fixture
def small(zoo):
    """An architecture that takes no time."""

    def build():
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, name="dense")])

    def data(random, examples):
        x = random.normal(size=(examples, 3)).astype(np.float32)
        return x, x[:, :1]

    architecture = zoo("architecture").Architecture(
        name="small", source="test", build=build, data=data, loss="mse", steps=4
    )

    def changed(**fields):
        return dataclasses.replace(architecture, **fields)

    return changed


def outcomes(zoo, architecture, folder):
    rows = []
    folder.mkdir()
    zoo("checks").check_architecture(architecture, folder, rows.append)
    return rows[-1].outcomes


@pytest.mark.slow
def test_a_planted_deviation_is_noticed(zoo, small, tmp_path):
    rates = itertools.chain([0.01], itertools.repeat(0.0101))
    trained = outcomes(
        zoo,
        small(optimizer=lambda: keras.optimizers.SGD(next(rates), momentum=0.9)),
        tmp_path / "rate",
    )
    assert trained["float32"].status == "failed"
    assert "differ from those of Keras" in trained["float32"].detail
    assert trained["saved"].status == trained["resume"].status == "passed"

    calls = itertools.count()

    def other_data_at_last(random, examples):
        x = random.normal(size=(examples, 3)).astype(np.float32)
        return x + (next(calls) >= 4), x[:, :1]

    resumed = outcomes(
        zoo, small(data=other_data_at_last, checks=("float32", "resume")), tmp_path / "data"
    )
    assert resumed["float32"].status == "passed"
    assert resumed["resume"].status == "failed"
    assert "without a stop" in resumed["resume"].detail

    reason = zoo("architecture").Deviation("it was never so", "differ")
    documented = outcomes(zoo, small(deviations={"resume": reason}), tmp_path / "documented")
    assert documented["resume"].status == "failed"
    assert "it was never so" in documented["resume"].detail

    refused = small(checks=("refused",), refusal="dense")
    assert outcomes(zoo, refused, tmp_path / "refused")["refused"].status == "failed"


def test_a_documented_reason_that_no_longer_holds_fails_when_the_saved_model_has_loaded(
    zoo, small, tmp_path
):
    reason = zoo("architecture").Deviation("Keras cannot load it", "cannot")
    architecture = small(deviations={"saved": reason})
    outcome_of = zoo("outcome").outcome_of

    def outcome(**stage):
        return outcome_of(architecture, "saved", lambda: "bit-equal", tmp_path, **stage)

    assert outcome(is_last=False).status == "passed"
    loaded = outcome()
    assert loaded.status == "failed"
    assert loaded.detail == "passed (bit-equal), but documented is: Keras cannot load it"


def test_a_file_of_rows_keeps_them_and_drops_a_line_that_was_cut(zoo, tmp_path):
    outcome, row_file = zoo("outcome"), zoo("row_file")
    path = tmp_path / "rows.jsonl"
    rows = [
        outcome.Row(name, "test", 4, {"float32": outcome.Outcome("passed", "0")}, 1.5)
        for name in ("first", "second", "third")
    ]
    for row in rows[:2]:
        row_file.RowFile(path).add(row)
    whole = path.read_text()
    path.write_text(whole + '{"name": "thi')
    again = row_file.RowFile(path)
    assert again.rows == {"first": rows[0], "second": rows[1]}
    again.add(rows[2])
    assert [*row_file.RowFile(path).rows.values()] == rows
    assert path.read_text().startswith(whole)


@pytest.mark.slow
def test_a_run_with_a_file_of_rows_checks_only_the_models_that_it_lacks(request, tmp_path):
    root, path = request.config.rootpath, tmp_path / "rows.jsonl"
    earlier = {"name": "stateful_lstm", "source": "an earlier run", "outcomes": {}}
    path.write_text(json.dumps(earlier) + "\n")
    completed = subprocess.run(
        [
            *(sys.executable, root / "benchmarks" / "model_zoo.py", "--json"),
            *("--json-lines", path, "stateful_lstm", "text_vectorization"),
        ],
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=4 * DEADLINE_S,  # it trains a model in five ways
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    rows = json.loads(completed.stdout)["rows"]
    assert [row["name"] for row in rows] == ["stateful_lstm", "text_vectorization"]
    assert rows[0]["source"] == "an earlier run"
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == [
        "stateful_lstm",
        "text_vectorization",
    ]


@pytest.mark.slow
def test_a_saved_model_with_other_predictions_is_noticed(zoo, small, tmp_path):
    folder = tmp_path / "small"
    architecture = small(checks=("float32",))
    assert outcomes(zoo, architecture, folder)["float32"].status == "passed"
    load_saved = zoo("load_saved")
    assert load_saved.compare_predictions(architecture, folder) == "bit-equal"
    path = folder / "float32" / load_saved.PREDICTIONS
    with np.load(path) as file:
        values = [np.nextafter(file[name], np.inf, dtype=file[name].dtype) for name in file.files]
    np.savez(path, *values)
    with pytest.raises(zoo("outcome").CheckFailed, match="predictions in float32 differ"):
        load_saved.compare_predictions(architecture, folder)
