"""The examples that a report shows, of every kind of data and target."""

import csv

import keras
import numpy as np
import pytest

from ampcore import JobSpec
from ampcore.training import Trainer
from ampspec.telemetry.evaluation_report import EVALUATION_REPORT_FILE, read_report

SCORED = {"layer": "Dense", "name": "out", "units": "classes"}


def report_of(folder, *, layer=SCORED, report=True, **parts):
    """The report of a job on a file in the folder; None without one."""
    document = {
        "model": {"kind": "layers", "layers": [layer]},
        "train": {"steps": 1, "evaluation_report": report},
        "runtime": {"engine": "graph"},
        **parts,
    }
    output = folder / "output"
    Trainer(JobSpec.parse(document), data_root=folder, output_dir=output).run(on_event=print)
    file = output / EVALUATION_REPORT_FILE
    return read_report(file.read_bytes()) if file.exists() else None


def arrays(folder, **values):
    """The `data` of a spec for arrays."""
    np.savez(folder / "it.npz", **values)
    return {"kind": "npz", "path": "it.npz", "batch_size": 8, "validation_split": 0.25}


@pytest.fixture
def random():
    return np.random.default_rng(0)


def test_columns_are_shown_as_they_are_in_the_file(tmp_path, random):
    with (tmp_path / "it.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "city", "label"])
        writer.writerows([index, "oslo", "yes" if index % 2 else "no"] for index in range(40))
    data = {"kind": "csv", "path": "it.csv", "target": "label", "batch_size": 8}
    report = report_of(tmp_path, data=data)
    assert report["outputs"]["output"]["names"] == ["no", "yes"]
    for example in [*report["worst"], *report["random"]]:
        row = example["row"] - 1
        assert example["inputs"] == [
            {"name": "age", "numbers": [float(row)]},
            {"name": "city", "text": "oslo"},
        ]
        assert example["outputs"]["output"]["target"] == {"class": row % 2}
    (tmp_path / "output" / EVALUATION_REPORT_FILE).unlink()
    assert report_of(tmp_path, report=False, data=data) is None


def test_pictures_with_masks_are_shown_as_pictures(tmp_path, random):
    x = random.integers(0, 256, (24, 12, 200, 3), np.uint8)
    data = arrays(tmp_path, x=x, y=(x[..., 0] > 128).astype(np.int32))
    layer = {"layer": "Conv2D", "name": "out", "filters": "classes", "kernel_size": 1}
    report = report_of(tmp_path, data=data, task={"kind": "segmentation"}, layer=layer)
    assert np.sum(report["outputs"]["output"]["confusion"]) == 6 * 12 * 200
    [example, *_] = report["worst"]
    assert (example["inputs"][0]["picture"]["low"], example["inputs"][0]["picture"]["high"]) == (
        0,
        255,
    )
    assert set(example["outputs"]["output"]) == {"target", "prediction", "wrong_share"}


def test_numbers_and_labels_have_a_value_for_each(tmp_path, random):
    x, y = random.normal(size=(40, 3)), random.normal(size=(40, 2))
    report = report_of(tmp_path, data=arrays(tmp_path, x=x, y=y), task={"kind": "regression"})
    assert len(report["outputs"]["output"]["numbers"]) == 2
    example = report["worst"][0]
    target = example["outputs"]["output"]["target"]["numbers"]
    assert target == pytest.approx(y[example["row"] - 1], rel=1e-5)


@pytest.mark.parametrize("as_list", [False, True])
def test_what_an_output_of_a_keras_model_means_is_known_from_its_loss(tmp_path, random, as_list):
    inputs = keras.Input((5,))
    outputs = {
        "own": keras.layers.Dense(1, name="own")(inputs),
        "kind": keras.layers.Dense(3, "softmax", name="kind")(inputs),
        "is_on": keras.layers.Dense(1, "sigmoid", name="is_on")(inputs),
        "size": keras.layers.Dense(1, name="size")(inputs),
    }
    x = random.normal(size=(40, 5)).astype("float32")
    targets = {
        "own": x[:, 1],
        "kind": np.eye(3)[random.integers(0, 3, 40)],
        "is_on": random.integers(0, 2, 40),
        "size": x[:, 0],
    }
    Trainer.from_keras(
        keras.Model(inputs, list(outputs.values()) if as_list else outputs),
        x,
        list(targets.values()) if as_list else targets,
        loss={
            "kind": "categorical_crossentropy",
            "is_on": keras.losses.BinaryCrossentropy(),
            "size": "mse",
            "own": lambda target, value: (target - value) ** 2,
        },
        optimizer="sgd",
        batch_size=8,
        validation_split=0.25,
        output_dir=tmp_path,
        verbose=0,
    ).run()
    report = read_report((tmp_path / EVALUATION_REPORT_FILE).read_bytes())
    kinds = {name: output["kind"] for name, output in report["outputs"].items()}
    assert kinds == {"kind": "class", "is_on": "labels", "size": "numbers"}
    shown = report["worst"][0]["outputs"]
    assert sum(share for _, share in shown["kind"]["top"]) == pytest.approx(1.0, abs=1e-5)
    assert 0 <= shown["is_on"]["prediction"]["labels"][0] <= 1
