"""Tasks on files of every format; the saved models take the raw data.

Each downloaded model is loaded with Keras alone and fed with the validation rows of the file.
"""

import csv
import json

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

import ampcore
from ampcore import JobSpec, SpecValidationError
from ampspec.errors import InvalidData, InvalidModel

FLOAT32 = {
    "runtime": {"device": "cpu", "engine": "graph"},
    "telemetry": {"ranges": {"enabled": False}},
}
BASE = FLOAT32 | {"precision": {"policy": "mixed_bfloat16"}}
CITIES = {"Bonn": 0.0, "Köln": 100.0, "Ulm": -50.0}


def train(folder, events=None, **sections):
    """Train a job on files of the folder; the result and the saved model."""
    spec = JobSpec.parse(FLOAT32 | sections)
    on_event = events.append if events is not None else None
    result = ampcore.Trainer(spec, folder, folder / "out").run(on_event=on_event)
    return result, keras.saving.load_model(result.model_file)


def signature(folder):
    return json.loads((folder / "out" / "signature.json").read_text())


@pytest.fixture
def houses(tmp_path):
    """A table with a number, a missing number, a category and a price."""
    random = np.random.default_rng(0)
    rows = []
    for _ in range(240):
        area, city = random.uniform(20, 200), random.choice(list(CITIES))
        age = "" if random.random() < 0.1 else f"{random.uniform(0, 90):.1f}"
        rows.append((f"{area:.1f}", city, age, f"{3 * area + CITIES[city]:.2f}"))
    with (tmp_path / "houses.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("area", "city", "age", "price"), *rows])
    return tmp_path, rows


HOUSES = {
    "kind": "csv",
    "path": "houses.csv",
    "target": "price",
    "batch_size": 16,
    "missing": "keep",
    "validation_rows": "last",
    "preprocessing": {
        "area": {"normalize": True},
        "age": {"missing": "mean", "normalize": True},
    },
}


def house_inputs(rows):
    """The raw columns of rows, as a program would give them to the model."""
    return {
        "area": tf.constant([[float(area)] for area, *_ in rows]),
        "city": tf.constant([[city] for _, city, *_ in rows]),
        "age": tf.constant([[float(age) if age else np.nan] for _, _, age, _ in rows]),
    }


def test_a_table_with_categories_and_missing_numbers_is_a_regression(houses):
    folder, rows = houses
    result, model = train(
        folder,
        model={"kind": "mlp", "hidden": [16]},
        data=HOUSES,
        task={"kind": "regression", "loss": "huber", "metrics": ["mae"]},
        optimizer={"kind": "adam", "learning_rate": 0.05},
        train={"epochs": 12},
    )
    held_out = rows[192:]
    predicted = model(house_inputs(held_out)).numpy()[:, 0]
    expected = np.array([float(price) for *_, price in held_out])
    error = np.abs(predicted - expected).mean()
    assert error < 60
    assert result.metrics["val_mae"] == pytest.approx(error, rel=1e-3)
    assert signature(folder)["models"]["model"]["inputs"]["city"] == {
        "shape": [1],
        "dtype": "string",
    }


def test_statistics_are_those_of_the_training_rows(houses):
    folder, rows = houses
    _, model = train(folder, model={"kind": "mlp"}, data=HOUSES, task={"kind": "regression"})
    areas = np.array([float(area) for area, *_ in rows[:192]])
    layer = model.get_layer("preprocessing").get_layer("column_0_normalization")
    np.testing.assert_allclose(np.ravel(layer.mean), areas.mean(), rtol=1e-5)
    np.testing.assert_allclose(np.ravel(layer.variance), areas.var(), rtol=1e-5)


def test_nothing_is_rescaled_that_the_spec_does_not_say(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (64, 4, 4, 1), dtype=np.uint8)
    np.savez(tmp_path / "it.npz", x_train=x, y_train=np.arange(64) % 2)
    spec = JobSpec.parse(
        {"model": {"kind": "mlp"}, "data": {"kind": "npz", "path": "it.npz", "batch_size": 8}}
    )
    plain = ampcore.data.load(spec.data, data_root=tmp_path)
    np.testing.assert_array_equal(plain.train.arrays.x, x.astype(np.float32))


@pytest.fixture
def birds(tmp_path):
    """A folder of pictures for each class: bright tits, dark crows."""
    random = np.random.default_rng(1)
    for name, low in (("crow", 0), ("tit", 128)):
        (tmp_path / "birds" / name).mkdir(parents=True)
        for number in range(30):
            pixels = random.integers(low, low + 128, (10, 10, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "birds" / name / f"{number}.png")
    return tmp_path


BIRDS = {
    "kind": "images",
    "path": "birds",
    "size": [8, 8],
    "batch_size": 8,
    "preprocessing": {"image": {"rescaling": "pixels"}},
    "augmentation": [{"layer": "RandomFlip"}, {"layer": "RandomTranslation"}],
}
SMALL_CNN = {"kind": "cnn", "filters": [4], "dense": [], "dropout": 0.0}


def test_a_folder_of_images_is_classified_with_the_names_of_its_folders(birds):
    events = []
    result, model = train(
        birds,
        events,
        model=SMALL_CNN,
        data=BIRDS,
        task={"kind": "classification", "metrics": ["accuracy", "auc"]},
        optimizer={"kind": "adam", "learning_rate": 0.01},
        train={"epochs": 12},
    )
    assert signature(birds)["targets"]["output"]["classes"] == ["crow", "tit"]
    [started] = [event for event in events if event.type == "started"]
    assert started.data["classes"] == {"output": ["crow", "tit"]}
    right = []
    for label, name in enumerate(("crow", "tit")):
        for file in sorted((birds / "birds" / name).iterdir()):
            image = np.asarray(Image.open(file).resize((8, 8), Image.Resampling.BILINEAR))
            right.append(model(image[None]).numpy().argmax() == label)
    assert np.mean(right) > 0.9
    assert result.val_accuracy > 0.9


def test_a_run_with_augmentation_resumes_exactly(birds):
    def run(epochs, folder=None, *, resume=False):
        spec = JobSpec.parse(
            BASE | {"model": SMALL_CNN, "data": BIRDS, "train": {"epochs": epochs}}
        )
        return ampcore.Trainer(spec, birds, folder, resume=resume).run()

    whole, folder = run(4), birds / "parts"
    run(2, folder)
    assert run(4, folder, resume=True).weights_digest == whole.weights_digest


def test_augmentation_changes_the_training_and_not_the_saved_model(birds):
    plain, _ = train(birds, model=SMALL_CNN, data=BIRDS | {"augmentation": []})
    varied, model = train(birds, model=SMALL_CNN, data=BIRDS)
    assert plain.weights_digest != varied.weights_digest
    assert not any("augmentation" in layer.name for layer in model.layers)


def segmentation_layers(classes):
    return {
        "kind": "layers",
        "layers": [
            {"layer": "Conv2D", "filters": 8, "kernel_size": 3, "padding": "same"},
            {"layer": "ReLU"},
            {"layer": "Conv2D", "name": "pixels", "filters": classes, "kernel_size": 1},
        ],
    }


def test_masks_are_segmented_pixel_by_pixel(tmp_path):
    random = np.random.default_rng(2)
    x = random.integers(0, 256, (40, 6, 6, 1), dtype=np.uint8)
    np.savez(tmp_path / "cells.npz", image=x, mask=(x[..., 0] > 127).astype(np.uint8))
    result, model = train(
        tmp_path,
        model=segmentation_layers("classes"),
        data={
            "kind": "npz",
            "path": "cells.npz",
            "batch_size": 8,
            "validation_split": 0.25,
            "preprocessing": {"image": {"rescaling": "pixels"}},
        },
        task={
            "kind": "segmentation",
            "loss": {"kind": "dice", "cross_entropy": 1.0},
            "metrics": ["iou", "accuracy"],
        },
        optimizer={"kind": "adam", "learning_rate": 0.05},
        train={"epochs": 20},
    )
    predicted = model(x[30:]).numpy().argmax(axis=-1)
    expected = x[30:, ..., 0] > 127
    assert result.metrics["val_accuracy"] == pytest.approx((predicted == expected).mean())
    assert result.metrics["val_iou"] > 0.7


def test_several_labels_of_an_example_are_predicted_each_on_its_own(tmp_path):
    random = np.random.default_rng(3)
    x = random.standard_normal((200, 4), dtype=np.float32)
    np.savez(tmp_path / "tags.npz", x=x, y=(x[:, :3] > 0).astype(np.uint8))
    result, model = train(
        tmp_path,
        model={"kind": "mlp", "hidden": [16]},
        data={"kind": "npz", "path": "tags.npz", "batch_size": 16, "validation_split": 0.2},
        task={"kind": "multi_label"},
        optimizer={"kind": "adam", "learning_rate": 0.02},
        train={"epochs": 10},
    )
    predicted = model(x[160:]).numpy() > 0
    assert result.val_accuracy == pytest.approx((predicted == (x[160:, :3] > 0)).mean(), abs=1e-5)
    assert result.val_accuracy > 0.85


def test_an_autoencoder_needs_no_labels(tmp_path):
    x = np.random.default_rng(4).standard_normal((96, 6), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    result, model = train(
        tmp_path,
        model={"kind": "mlp", "hidden": [12]},
        data={"kind": "npy", "path": "x.npy", "batch_size": 16, "validation_split": 0.25},
        task={"kind": "autoencoding"},
        train={"epochs": 3},
    )
    error = np.sqrt(np.square(model(x[72:]).numpy() - x[72:]).mean())
    assert result.metrics["val_rmse"] == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize(
    "layers",
    [
        [{"layer": "Flatten"}, {"layer": "Dense", "units": 12}],
        [{"layer": "Dense", "units": 3}],
        [{"layer": "Reshape", "target_shape": [2, 6, 1]}, {"layer": "Dense", "units": 1}],
    ],
)
def test_an_autoencoder_may_return_its_input_in_another_shape(tmp_path, layers):
    x = np.random.default_rng(4).standard_normal((96, 4, 3), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    result, model = train(
        tmp_path,
        model={"kind": "layers", "layers": layers},
        data={"kind": "npy", "path": "x.npy", "batch_size": 16, "validation_split": 0.25},
        task={"kind": "autoencoding", "metrics": ["mae", "mse", "rmse"]},
        train={"epochs": 1},
    )
    difference = model(x[72:]).numpy().reshape(24, 4, 3) - x[72:]
    squares = np.square(difference).mean()
    expected = {
        "loss": squares,
        "mae": abs(difference).mean(),
        "mse": squares,
        "rmse": squares**0.5,
    }
    found = {name.removeprefix("val_"): value for name, value in result.metrics.items()}
    assert found == pytest.approx(expected, rel=1e-4)


def test_an_autoencoder_with_another_number_of_values_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((96, 4, 3), np.float32))
    with pytest.raises(
        InvalidModel, match=r"units: expected an output \[12\].*; received \[4, 5\]"
    ):
        train(
            tmp_path,
            model={"kind": "layers", "layers": [{"layer": "Dense", "units": 5}]},
            data={"kind": "npy", "path": "x.npy", "batch_size": 16, "validation_split": 0.25},
            task={"kind": "autoencoding"},
        )


def test_averages_of_one_metric_are_metrics_of_their_own(birds):
    metrics = ["precision", {"kind": "precision", "average": "micro"}]
    task = {"kind": "classification", "metrics": metrics}
    result, _ = train(birds, model=SMALL_CNN, data=BIRDS, task=task)
    assert set(result.metrics) == {"val_loss", "val_precision", "val_precision_micro"}


def test_a_metric_that_is_named_twice_is_refused(birds):
    task = {"kind": "classification", "metrics": ["accuracy", "accuracy"]}
    with pytest.raises(SpecValidationError, match=r"/task/metrics/1: .*received accuracy"):
        train(birds, model=SMALL_CNN, data=BIRDS, task=task)


def test_sentences_that_become_a_category_each_are_a_warning(tmp_path):
    lines = [f"sentence {row},{'Ulm' if row % 2 else 'Bonn'},{row % 2}" for row in range(60)]
    (tmp_path / "it.csv").write_text("\n".join(["text,city,label", *lines]))
    events = []
    data = {"kind": "csv", "path": "it.csv", "batch_size": 16}
    train(tmp_path, events, model={"kind": "mlp", "hidden": []}, data=data, train={"steps": 1})
    codes = {
        event.data["code"]: event.data
        for event in events
        if event.type == "preflight" and "code" in event.data
    }
    assert codes["categories_almost_unique"]["data"] == {
        "column": "text",
        "different": 48,
        "rows": 48,
    }
    assert "tokens" in codes["categories_almost_unique"]["message"]


def test_text_is_classified_from_its_words(tmp_path):
    random = np.random.default_rng(5)
    words = {"good": ["fine", "great", "lovely"], "bad": ["awful", "poor", "dull"]}
    kinds = [("good", "bad")[number % 2] for number in range(120)]
    texts = [
        f"A {random.choice(words[kind])} day, {random.choice(['yes', 'no'])}!" for kind in kinds
    ]
    pq.write_table(pa.table({"text": texts, "kind": kinds}), tmp_path / "days.parquet")
    result, model = train(
        tmp_path,
        model={
            "kind": "layers",
            "layers": [
                {"layer": "Embedding", "input_dim": "vocabulary", "output_dim": 8},
                {"layer": "GlobalAveragePooling1D"},
                {"layer": "Dense", "name": "logits", "units": "classes"},
            ],
        },
        data={
            "kind": "parquet",
            "path": "days.parquet",
            "inputs": {"text": "text"},
            "target": "kind",
            "batch_size": 16,
            "preprocessing": {"text": {"tokens": {"length": 6}}},
        },
        task={"kind": "classification"},
        optimizer={"kind": "adam", "learning_rate": 0.05},
        train={"epochs": 15},
    )
    names = signature(tmp_path)["targets"]["output"]["classes"]
    found = model(tf.constant([["What a LOVELY day"], ["poor, dull day"]])).numpy().argmax(axis=1)
    assert [names[number] for number in found] == ["good", "bad"]
    assert result.val_accuracy > 0.9


def test_several_inputs_and_outputs_have_columns_losses_and_metrics_each(houses):
    folder, rows = houses
    model = {
        "kind": "layers",
        "inputs": {
            "numbers": {"shape": [2], "dtype": "float32"},
            "place": {"shape": [1], "dtype": "int32"},
        },
        "layers": [
            {
                "layer": "Embedding",
                "name": "table",
                "input_dim": 4,
                "output_dim": 4,
                "inputs": ["place"],
            },
            {"layer": "Flatten", "name": "flat", "inputs": ["table"]},
            {"layer": "Concatenate", "name": "joined", "inputs": ["numbers", "flat"]},
            {"layer": "Dense", "name": "hidden", "units": 16, "activation": "relu"},
            {"layer": "Dense", "name": "price", "units": 1, "inputs": ["hidden"]},
            {"layer": "Dense", "name": "where", "units": 3, "inputs": ["hidden"]},
        ],
        "outputs": ["price", "where"],
    }
    data = {
        "kind": "csv",
        "path": "houses.csv",
        "missing": "keep",
        "batch_size": 16,
        "validation_rows": "last",
        "inputs": {"numbers": ["area", "age"], "place": ["city_key"]},
        "preprocessing": {
            "area": {"normalize": True},
            "age": {"missing": "zero"},
            "city_key": {"keys": True},
        },
    }
    keys = {name: number for number, name in enumerate(sorted(CITIES))}
    with (folder / "houses.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("area", "city", "age", "price", "city_key"))
        writer.writerows([(*row, keys[row[1]]) for row in rows])
    task = {
        "kind": "outputs",
        "outputs": {
            "price": {"task": {"kind": "regression", "metrics": ["mae"]}, "weight": 0.001},
            "where": {"task": {"kind": "classification"}, "target": "city"},
        },
    }
    result, saved = train(
        folder,
        model=model,
        data=data,
        task=task,
        optimizer={"kind": "adam", "learning_rate": 0.05},
        train={"epochs": 10},
    )
    held_out = rows[192:]
    outputs = saved(
        {
            "area": tf.constant([[float(area)] for area, *_ in held_out]),
            "age": tf.constant([[float(age) if age else np.nan] for _, _, age, _ in held_out]),
            "city_key": tf.constant([[keys[city]] for _, city, *_ in held_out], tf.int64),
        }
    )
    prices = np.array([float(price) for *_, price in held_out])
    error = np.abs(outputs["price"].numpy()[:, 0] - prices).mean()
    right = outputs["where"].numpy().argmax(axis=1) == [keys[city] for _, city, *_ in held_out]
    assert result.metrics["val_price_mae"] == pytest.approx(error, rel=1e-3)
    assert result.metrics["val_where_accuracy"] == pytest.approx(np.mean(right), abs=1e-5)
    assert np.mean(right) > 0.9


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"target": "prize"}, r"targets.output: expected columns of the data: area, city"),
        ({"inputs": {"x": ["area", "price"]}}, r"inputs.x: expected no targets; received price"),
        ({"inputs": {"x": "aera"}}, r"inputs.x: expected columns of the data"),
        ({"preprocessing": {"price": {}}}, r"preprocessing.price: expected an input column"),
        ({"preprocessing": {"city": {"normalize": True}}}, r"preprocessing.city: .* for text"),
        ({"preprocessing": {"area": {"keys": True}}}, r"preprocessing.area: expected rescaling"),
        ({"preprocessing": {}}, r"row \d+, column age: expected a number"),
        ({"target": None}, r"target: expected the column to predict"),
    ],
)
def test_columns_that_cannot_be_used_are_named(houses, changed, message):
    folder, _ = houses
    with pytest.raises(InvalidData, match=message):
        train(folder, model={"kind": "mlp"}, data=HOUSES | changed, task={"kind": "regression"})


def test_class_weights_must_be_as_many_as_the_classes(birds):
    task = {
        "kind": "classification",
        "loss": {"kind": "cross_entropy", "class_weights": [1.0, 2.0, 3.0]},
    }
    with pytest.raises(InvalidModel, match=r"class_weights: expected 2 weights"):
        train(birds, model=SMALL_CNN, data=BIRDS, task=task)


def test_a_validation_class_that_no_training_row_has_is_named(tmp_path):
    x = np.zeros((4, 3), np.float32)
    np.savez(
        tmp_path / "it.npz",
        x_train=x,
        y_train=np.array(["a", "b", "a", "b"]),
        x_test=x[:1],
        y_test=np.array(["c"]),
    )
    with pytest.raises(InvalidData, match=r"y: expected the classes of the training .* 'c'"):
        train(
            tmp_path,
            model={"kind": "mlp"},
            data={"kind": "npz", "path": "it.npz", "batch_size": 2},
        )
