"""The metrics of each validation example, in the files of a job."""

import io

import numpy as np
import pytest

from ampcore import JobSpec
from ampcore.training import Trainer
from ampcore.training.evaluation.report.report import ReportBuilder
from ampspec.data.row_split import split_rows
from ampspec.studies.precision.example_results import ExampleResults
from ampspec.telemetry import EventType
from ampspec.telemetry.evaluation_report import EVALUATION_REPORT_FILE, read_report
from ampspec.telemetry.validation_examples import VALIDATION_EXAMPLES_FILE, read_examples

LAYERS = {
    "kind": "layers",
    "layers": [
        {"layer": "Flatten", "name": "flat"},
        {"layer": "Dense", "name": "logits", "units": "classes"},
    ],
}


def train(folder, **parts):
    """The result, the events, and the rows and metrics in the file."""
    document = {
        "model": {"kind": "mlp", "hidden": [8]},
        "data": {"kind": "digits", "batch_size": 64},
        "train": {"steps": 30, "seed": 3},
        "runtime": {"engine": "graph"},
        **parts,
    }
    events = []
    output = folder / "output"
    trainer = Trainer(JobSpec.parse(document), data_root=folder, output_dir=output)
    result = trainer.run(on_event=events.append)
    content = (output / VALIDATION_EXAMPLES_FILE).read_bytes()
    return result, events, *read_examples(content)


@pytest.mark.parametrize("model", [{"kind": "mlp", "hidden": [8]}, LAYERS], ids=["mlp", "layers"])
def test_the_means_of_all_examples_are_the_metrics_of_the_job(tmp_path, model):
    result, events, rows, metrics = train(tmp_path, model=model)
    assert rows.tolist() == list(range(1438, 1798))
    assert metrics["accuracy"].mean() == pytest.approx(result.metrics["val_accuracy"], rel=1e-5)
    assert metrics["loss"].mean() == pytest.approx(result.metrics["val_loss"], rel=1e-4)
    assert set(np.unique(metrics["accuracy"])) == {0.0, 1.0}
    [saved] = [event for event in events if event.type is EventType.MODEL_SAVED]
    assert saved.data["examples"] == VALIDATION_EXAMPLES_FILE
    assert saved.data["evaluation"] == EVALUATION_REPORT_FILE
    report = read_report((tmp_path / "output" / EVALUATION_REPORT_FILE).read_bytes())
    [output] = report["outputs"].values()
    assert np.trace(output["confusion"]) == pytest.approx(metrics["accuracy"].sum())
    assert report["metrics"] == result.metrics
    worst = rows[np.argsort(-metrics["loss"], kind="stable")]
    assert [example["row"] for example in report["worst"]] == worst[:12].tolist()
    assert not {example["row"] for example in report["random"]} & set(worst[:12].tolist())
    [picture] = report["worst"][0]["inputs"]
    assert picture["picture"]["png"].startswith("data:image/png;base64,")


def test_with_the_best_weights_they_are_those_of_the_best_evaluation(tmp_path):
    """A learning rate that ruins the weights: the last evaluation is not the best."""
    options = {"steps": None, "epochs": 6, "eval_every_epochs": 1, "keep": "best"}
    result, _, _, metrics = train(
        tmp_path,
        train=options | {"best": {"metric": "val_accuracy"}},
        optimizer={"kind": "sgd", "learning_rate": 3.0},
    )
    assert metrics["accuracy"].mean() == pytest.approx(result.best["value"], rel=1e-5)


def test_the_best_constant_prediction_is_the_largest_class_and_the_class_shares(tmp_path):
    result, *_ = train(tmp_path)
    assert 0.1 <= result.constant_metrics["val_accuracy"] < 0.12
    assert result.constant_metrics["val_loss"] == pytest.approx(np.log(10), abs=0.01)
    assert result.to_json()["constant_metrics"] == result.constant_metrics


def test_the_best_constant_prediction_of_numbers_is_their_mean(tmp_path):
    y = np.arange(40.0)
    x = np.random.default_rng(0).standard_normal((40, 2))
    np.savez(tmp_path / "it.npz", x=x, y=y)
    data = {"kind": "npz", "path": "it.npz", "batch_size": 8, "validation_split": 0.5}
    result, events, rows, _ = train(tmp_path, data=data, task={"kind": "regression"}, model=NUMBERS)
    assert rows.tolist() == list(range(21, 41))
    assert result.constant_metrics["val_loss"] == pytest.approx(np.var(y[20:]), rel=1e-5)
    # Its inputs are noise.
    [warning] = [event.data for event in events if event.type is EventType.WARNING]
    assert warning["code"] == "no_better_than_constant"
    assert f"val_loss {result.val_loss:.4g} against {np.var(y[20:]):.4g}" in warning["message"]


NUMBERS = {"kind": "layers", "layers": [{"layer": "Dense", "name": "out", "units": "classes"}]}


def test_random_rows_are_those_of_the_split_seed_whatever_the_seed_of_the_training_is(tmp_path):
    lines = "".join(f"{row},{row % 2}\n" for row in range(100))
    (tmp_path / "it.csv").write_text(f"x,y\n{lines}")
    data = {"kind": "csv", "path": "it.csv", "target": "y", "batch_size": 8, "split_seed": 5}
    found = {}
    for seed in (1, 2):
        _, events, rows, _ = train(tmp_path, data=data, train={"steps": 2, "seed": seed})
        [started] = [event for event in events if event.type is EventType.STARTED]
        assert started.data["data"]["split_seed"] == 5
        assert started.data["data"]["validation_rows"] == "random"
        found[seed] = rows.tolist()
    assert found[1] == found[2]
    training, validation = split_rows(100, 0.2, 5)
    assert found[1] == (validation + 1).tolist()
    assert sorted([*training, *validation]) == list(range(100))
    _, _, rows, _ = train(tmp_path, data=data | {"split_seed": 6}, train={"steps": 2})
    assert rows.tolist() != found[1]


def test_of_very_many_examples_no_table_is_written_and_a_warning_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("ampcore.training.result.model_selection.MAX_EXAMPLES", 359)
    document = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}, "train": {"steps": 2}}
    spec, events = JobSpec.parse(document | {"runtime": {"engine": "graph"}}), []
    Trainer(spec, output_dir=tmp_path).run(on_event=events.append)
    assert not (tmp_path / VALIDATION_EXAMPLES_FILE).exists()
    [warning] = [e for e in events if e.data.get("code") == "many_validation_examples"]
    assert warning.data["message"].startswith("There are 360 validation examples, more than 359")


def test_the_results_that_a_study_keeps_are_read_back_as_they_were(tmp_path):
    train(tmp_path)
    content = (tmp_path / "output" / VALIDATION_EXAMPLES_FILE).read_bytes()
    results = ExampleResults.from_table(content)
    assert (
        ExampleResults.from_json(results.to_json()).values["val_accuracy"]
        == (results.values["val_accuracy"])
    )
    assert results.rows == len(results.values["val_accuracy"]) == 360


def as_file(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


TABLE = as_file(np.zeros(1, [("row", "<i8"), ("loss", "<f4")]))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"PK\x03\x04",
        as_file(np.zeros(3)),
        TABLE[:-1],
        TABLE.replace(b"(1,)", b"(9,)"),
        as_file(np.zeros(0, [("row", "<i8")])),
    ],
)
def test_a_file_that_is_no_such_table_is_an_error(content):
    with pytest.raises(ValueError, match=r"."):
        ExampleResults.from_table(content)


def test_a_report_that_cannot_be_made_is_a_warning_and_no_lost_training(tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("a target is the class -1, which is no class")

    monkeypatch.setattr(ReportBuilder, "to_json", fail)
    result, events, rows, _ = train(tmp_path)
    assert (len(rows), result.stopped) == (360, False)
    assert not (tmp_path / "output" / EVALUATION_REPORT_FILE).exists()
    [warning] = [event.data for event in events if event.type is EventType.WARNING]
    assert (warning["code"], "the class -1" in warning["message"]) == (
        "evaluation_not_reported",
        True,
    )
