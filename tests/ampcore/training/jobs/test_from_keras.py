"""`Trainer.from_keras`: custom Keras models with their own data, losses and metrics."""

import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import ampcore
from ampspec.errors import IncompatibleCheckpoint, InvalidData, InvalidModel, NonFiniteResult
from ampspec.jobs import SpecValidationError
from ampspec.telemetry import EventType

GRAPH = {
    "runtime": {"device": "cpu", "engine": "graph"},
    "telemetry": {"ranges": {"enabled": False}},
}
ROWS = 96


@pytest.fixture(scope="module")
def table():
    """Inputs (n, 6) and integer labels that a small network can learn."""
    random = np.random.default_rng(0)
    x = random.standard_normal((ROWS, 6), dtype=np.float32)
    return x, (x[:, 0] + x[:, 1] > 0).astype(np.int64)


def dense_model(outputs=2, activation="softmax", **layer):
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="relu", name="hidden", **layer),
            keras.layers.Dense(outputs, activation=activation, name="scores"),
        ]
    )


def two_input_model():
    """Numbers and keys in; a price and a class out."""
    numbers = keras.Input((6,), name="numbers")
    keys = keras.Input((3,), dtype="int32", name="keys")
    embedded = keras.layers.Flatten()(keras.layers.Embedding(10, 4, name="table")(keys))
    joined = keras.layers.Concatenate()([numbers, embedded])
    hidden = keras.layers.Dense(8, activation="relu", name="hidden")(joined)
    price = keras.layers.Dense(1, name="price")(hidden)
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(hidden)
    return keras.Model(
        {"numbers": numbers, "keys": keys}, {"price": price, "kind": kind}, name="two_inputs"
    )


def two_output_model():
    inputs = keras.Input((6,))
    return keras.Model(
        inputs, {name: keras.layers.Dense(1, name=name)(inputs) for name in ("one", "two")}
    )


def two_input_data():
    random = np.random.default_rng(1)
    numbers = random.standard_normal((ROWS, 6), dtype=np.float32)
    keys = random.integers(10, size=(ROWS, 3))
    targets = {"price": numbers.sum(1), "kind": keys.sum(1) % 3}
    return {"numbers": numbers, "keys": keys}, targets


class Doubling(keras.layers.Layer):
    """A layer of the user's own, with a weight and a config."""

    def __init__(self, factor=2.0, **layer):
        super().__init__(**layer)
        self.factor = factor

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")

    def call(self, inputs):
        return inputs * self.scale * self.factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


def nested_outputs_model():
    inputs = keras.Input((6,))
    first, second = keras.layers.Dense(3)(inputs), keras.layers.Dense(3)(inputs)
    return keras.Model(inputs, {"scores": [first, second]})


class VectorLoss(keras.losses.Loss):
    """It has no reduction, although it says so."""

    def __call__(self, y_true, y_pred, sample_weight=None):
        return tf.square(y_pred - tf.cast(y_true[:, None], tf.float32))


class Subclassed(keras.Model):
    """A model without a graph of layers."""

    def __init__(self, units=8):
        super().__init__()
        self.hidden = keras.layers.Dense(units, activation="relu", name="hidden")
        self.norm = keras.layers.BatchNormalization(name="norm")
        self.scores = keras.layers.Dense(2, activation="softmax", name="scores")
        self.units = units

    def call(self, inputs, training=False):
        return self.scores(self.norm(self.hidden(inputs), training=training))


class Recreatable(Subclassed):
    """Such a model with a config."""

    def get_config(self):
        return {"units": self.units}


def train(model, data, **arguments):
    """Train, and return the result, the losses of all steps and the events."""
    blocks, events = [], []
    options = {"batch_size": 32, "epochs": 2, **GRAPH} | arguments
    if isinstance(data, tf.data.Dataset | keras.utils.PyDataset) or hasattr(data, "__next__"):
        options.pop("batch_size")
    trainer = ampcore.Trainer.from_keras(model, data=data, **options)
    result = trainer.run(on_block=blocks.append, on_event=events.append)
    return result, np.concatenate([block["loss"] for block in blocks]), events


def values(model):
    return [np.asarray(variable) for variable in model.variables]


def batches(arrays, size=32):
    """The rows of (x, y) in batches, without shuffling."""
    return tf.data.Dataset.from_tensor_slices(arrays).batch(size)


def test_a_run_takes_the_same_steps_as_fit(table):
    model = dense_model()
    reference = keras.models.clone_model(model)
    reference.set_weights(model.get_weights())
    reference.compile(
        keras.optimizers.Adam(1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    history = reference.fit(
        *table, batch_size=32, epochs=2, shuffle=False, verbose=0, validation_data=table
    )
    result, _, _ = train(
        model,
        table,
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
        optimizer={"kind": "adam", "learning_rate": 1e-2},
        validation_data=table,
        shuffle=False,
    )
    for mine, theirs in zip(values(model), values(reference), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    expected = {name: found[-1] for name, found in history.history.items() if "val" in name}
    assert result.metrics == pytest.approx(expected, rel=1e-4)


def test_a_complete_run_leaves_the_trained_weights_in_the_given_model(table, tmp_path):
    model = dense_model()
    before = values(model)
    result, _, _ = train(
        model, table, loss="sparse_categorical_crossentropy", output_dir=tmp_path, epochs=1
    )
    saved = keras.saving.load_model(result.model_file)
    assert not np.array_equal(before[0], values(model)[0])
    for mine, stored in zip(values(model), values(saved), strict=True):
        np.testing.assert_array_equal(mine, stored)


def test_several_inputs_and_outputs_have_a_loss_weight_and_metrics_each():
    x, y = two_input_data()
    model = two_input_model()
    reference = keras.models.clone_model(model)
    reference.set_weights(model.get_weights())
    losses = {"price": "mse", "kind": keras.losses.SparseCategoricalCrossentropy()}
    metrics = {"price": ["mae"], "kind": ["accuracy"]}
    reference.compile("sgd", losses, loss_weights={"price": 0.25, "kind": 1.0}, metrics=metrics)
    reference.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0)
    expected = reference.evaluate(x, y, verbose=0, return_dict=True)
    result, _, _ = train(
        model,
        (x, y),
        loss=losses,
        loss_weights={"price": 0.25},
        metrics=metrics,
        optimizer={"kind": "sgd", "learning_rate": 0.01},
        validation_data=(x, y),
        shuffle=False,
    )
    found = {name.removeprefix("val_"): value for name, value in result.metrics.items()}
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        (Subclassed, "float32"),
        (Subclassed, "mixed_float16"),
        (Recreatable, "mixed_float16"),
        (Recreatable, "bfloat16"),
    ],
)
def test_a_subclassed_model_trains_in_every_policy(table, kind, policy):
    model = kind(units=12)
    model(table[0][:1])
    result, losses, _ = train(
        model,
        table,
        loss="sparse_categorical_crossentropy",
        policy=policy,
        epochs=10,
        optimizer={"kind": "adam", "learning_rate": 0.02},
    )
    assert result.policy == policy
    assert losses[-3:].mean() < losses[:3].mean() / 1.5
    assert model.hidden.compute_dtype == "float32"


def test_the_layer_that_computes_the_output_of_a_subclassed_model_stays_in_float32(table):
    model = Recreatable()
    model(table[0][:1])
    converted = ampcore.apply_policy(model, "mixed_float16", example=table[0][:1])
    assert [layer.compute_dtype for layer in (converted.hidden, converted.scores)] == [
        "float16",
        "float32",
    ]


def test_a_skip_of_a_subclassed_model_is_explained_in_float32(table):
    x, y = table[0].copy(), table[1]
    model = Subclassed()
    model(x[:1])
    model.hidden.kernel.assign(np.full((6, 8), 3e4, np.float32))
    trainer = ampcore.Trainer.from_keras(
        model,
        data=(np.abs(x) + 1, y),
        loss="sparse_categorical_crossentropy",
        policy="mixed_float16",
        train={"steps": 1},
        **GRAPH,
    )
    events = []
    with pytest.raises(NonFiniteResult, match="every step was skipped"):
        trainer.run(on_event=events.append)
    [overflow] = [event.data for event in events if event.type is EventType.OVERFLOW]
    assert (overflow["diagnosis"], overflow["layer"]) == ("operation", "hidden")


def test_own_layers_lambdas_and_losses_as_functions_can_be_trained(table):
    model = keras.Sequential(
        [
            keras.Input((6,)),
            Doubling(factor=0.5),
            keras.layers.Lambda(lambda inputs: inputs + 1.0),
            keras.layers.Dense(1),
        ]
    )

    def squared(targets, predictions):
        return (targets - predictions) ** 2

    x, y = table
    _, losses, _ = train(model, (x, y[:, None]), loss=squared, policy="mixed_bfloat16", epochs=40)
    assert losses[-3:].mean() < losses[:3].mean()


def test_losses_of_layers_are_part_of_the_loss(table):
    model = dense_model(kernel_regularizer=keras.regularizers.L2(0.5))
    model.layers[0].kernel.assign(np.ones((6, 8)))
    _, losses, _ = train(
        model, table, loss="sparse_categorical_crossentropy", epochs=1, optimizer="sgd"
    )
    assert losses[0] > 0.5 * 48


def test_a_model_without_any_loss_is_refused(table):
    trainer = ampcore.Trainer.from_keras(dense_model(), *table)
    with pytest.raises(InvalidModel, match="loss: expected a loss of an output, or a layer that"):
        trainer.run()


def test_sample_weights_scale_the_loss_of_each_example(table):
    x, y = table
    weights = np.zeros(ROWS, np.float32)
    model = dense_model()
    before = values(model)
    _, losses, _ = train(model, (x, y, weights), loss="sparse_categorical_crossentropy", epochs=1)
    assert losses.tolist() == [0.0] * 3
    np.testing.assert_array_equal(before[0], values(model)[0])


class Largest(keras.metrics.Metric):
    """The largest prediction; its update takes no sample weights."""

    def __init__(self, name="largest"):
        super().__init__(name=name)
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(self, y_true, y_pred):
        self.largest.assign(tf.maximum(self.largest.value, tf.reduce_max(y_pred)))

    def result(self):
        return self.largest.value

    def get_config(self):
        return {"name": self.name}


def test_sample_weights_do_not_change_metrics_as_in_fit(table):
    x, y = table
    weights = np.random.default_rng(2).random(ROWS).astype(np.float32)
    model = dense_model()
    reference = keras.models.clone_model(model)
    reference.set_weights(model.get_weights())
    loss = "sparse_categorical_crossentropy"
    reference.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    history = reference.fit(
        x,
        y,
        sample_weight=weights,
        batch_size=32,
        epochs=2,
        shuffle=False,
        verbose=0,
        validation_data=(x, y, weights),
    ).history
    result, _, _ = train(
        model,
        (x, y, weights),
        loss=loss,
        metrics=["accuracy", Largest()],
        optimizer={"kind": "sgd", "learning_rate": 0.1},
        validation_data=(x, y, weights),
        shuffle=False,
    )
    assert result.metrics["val_accuracy"] == pytest.approx(history["val_accuracy"][-1])
    assert result.metrics["val_loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
    assert result.metrics["val_largest"] == pytest.approx(model(x).numpy().max())


def test_accuracy_of_logits_counts_those_above_zero(table):
    x, y = table
    model = dense_model(1, activation=None)
    result, _, _ = train(
        model,
        (x, y),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=["accuracy"],
        validation_data=(x, y),
    )
    logits = model(x).numpy()[:, 0]
    assert result.val_accuracy == pytest.approx(((logits > 0) == y).mean())


def test_labels_without_an_axis_fit_an_output_of_one_number(table):
    model = dense_model(1, "sigmoid")
    result, _, _ = train(
        model,
        table,
        loss="binary_crossentropy",
        metrics=["accuracy"],
        validation_data=table,
        epochs=1,
    )
    model.compile(loss="binary_crossentropy", metrics=["accuracy"])
    loss, accuracy = model.evaluate(*table, batch_size=ROWS, verbose=0)
    assert result.metrics == pytest.approx({"val_loss": loss, "val_accuracy": accuracy}, rel=1e-5)


def test_metrics_take_float32_from_outputs_in_16_bits(table):
    dtypes = []

    def dtype_of(targets, predictions):
        dtypes.append(predictions.dtype)
        return predictions[:, 0]

    model = dense_model()
    model.add(keras.layers.Lambda(lambda outputs: tf.cast(outputs, tf.float16)))
    train(
        model,
        table,
        loss="sparse_categorical_crossentropy",
        metrics=[dtype_of],
        validation_data=table,
    )
    assert set(dtypes) == {tf.float32}


def test_metrics_that_are_no_means_are_exact_over_all_batches(table):
    x, y = table
    model = dense_model(1, activation="sigmoid")
    result, _, _ = train(
        model,
        (x, y[:, None].astype(np.float32)),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc"), keras.metrics.F1Score(threshold=0.5, name="f1")],
        validation_data=(x[:70], y[:70, None].astype(np.float32)),
    )
    auc = keras.metrics.AUC()
    auc.update_state(y[:70], model(x[:70])[:, 0])
    f1 = keras.metrics.F1Score(threshold=0.5)
    f1.update_state(y[:70, None].astype(np.float32), model(x[:70]))
    assert result.metrics["val_auc"] == pytest.approx(float(auc.result()), abs=1e-6)
    assert result.metrics["val_f1"] == pytest.approx(float(f1.result()[0]), abs=1e-6)


@pytest.mark.parametrize("engine", ["graph", "xla_loop"])
def test_an_optimizer_of_keras_skips_steps_as_a_whole_also_under_xla(table, engine):
    x, y = table[0].copy(), table[1]
    x[40] = np.inf
    model = dense_model()
    optimizer = keras.optimizers.Nadam(0.01)
    result, _, events = train(
        model,
        (x, y),
        loss="sparse_categorical_crossentropy",
        optimizer=optimizer,
        policy="mixed_float16",
        shuffle=False,
        epochs=3,
        runtime={"device": "cpu", "engine": engine},
    )
    assert result.skipped == 3
    assert all(np.isfinite(part).all() for part in values(model))
    causes = [event.data["diagnosis"] for event in events if event.type is EventType.OVERFLOW]
    assert causes == ["data"] * 3
    # The given optimizer itself took the steps.
    assert optimizer.iterations.numpy() == result.steps - 3


def test_batches_of_a_tf_data_dataset_train_the_same_steps_as_arrays(table):
    first, second = dense_model(), dense_model()
    second.set_weights(first.get_weights())
    loss = "sparse_categorical_crossentropy"
    one, expected, _ = train(first, table, loss=loss, shuffle=False)
    other, found, _ = train(second, batches(table), loss=loss)
    np.testing.assert_array_equal(found, expected)
    assert one.weights_digest == other.weights_digest


class Rows(keras.utils.PyDataset):
    """Batches of arrays by index."""

    def __init__(self, x, y, size=20):
        super().__init__()
        self.x, self.y, self.size, self.epochs = x, y, size, 0

    def __len__(self):
        return math.ceil(len(self.x) / self.size)

    def __getitem__(self, index):
        rows = slice(index * self.size, (index + 1) * self.size)
        return self.x[rows], self.y[rows]

    def on_epoch_end(self):
        self.epochs += 1


def test_a_py_dataset_trains_on_whole_batches_and_is_told_of_the_end_of_an_epoch(table):
    rows = Rows(*table)
    result, _, _ = train(
        dense_model(), rows, loss="sparse_categorical_crossentropy", validation_data=Rows(*table)
    )
    assert result.steps == 2 * 4
    assert rows.epochs >= 1


def test_a_generator_trains_the_steps_it_is_asked_for(table):
    def endless():
        while True:
            for start in range(0, ROWS, 32):
                yield table[0][start : start + 32], table[1][start : start + 32]

    result, losses, _ = train(
        dense_model(), endless(), loss="sparse_categorical_crossentropy", steps_per_epoch=3
    )
    assert (result.steps, len(losses)) == (6, 6)


def test_a_generator_that_ends_early_is_named_in_the_error(table):
    def short():
        yield table[0][:32], table[1][:32]

    with pytest.raises(InvalidData, match=r"batch 1: expected 3 batches in an epoch"):
        train(dense_model(), short(), loss="sparse_categorical_crossentropy", steps_per_epoch=3)


def rows_in_sizes(table, *sizes):
    """Batches of these sizes from the first rows on."""
    stops = np.cumsum(sizes)
    return [
        (table[0][stop - size : stop], table[1][stop - size : stop])
        for size, stop in zip(sizes, stops, strict=True)
    ]


class Batches(keras.utils.PyDataset):
    """A list of batches."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def __len__(self):
        return len(self.given)

    def __getitem__(self, index):
        return self.given[index]


def dataset_of(given):
    """A tf.data.Dataset of unknown length with these batches."""
    signature = (tf.TensorSpec((None, 6), tf.float32), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(lambda: iter(given), output_signature=signature)


@pytest.mark.parametrize("kind", [iter, dataset_of, Batches])
def test_a_small_batch_between_others_is_refused(table, kind):
    data = kind(rows_in_sizes(table, 32, 16, 32))
    steps = {} if kind is Batches else {"steps_per_epoch": 3}
    with pytest.raises(InvalidData, match=r"batch 1: expected 32 examples.*; received 16"):
        train(dense_model(), data, loss="sparse_categorical_crossentropy", shuffle=False, **steps)


def test_a_small_batch_at_the_end_of_an_epoch_is_left_out_but_is_no_step(table):
    data = batches((table[0][:80], table[1][:80]))
    loss = "sparse_categorical_crossentropy"
    result, _, _ = train(dense_model(), data, loss=loss)
    assert result.steps == 2 * 2
    with pytest.raises(InvalidData, match=r"batch 2: expected 32 examples.*; received 16"):
        train(dense_model(), data, loss=loss, steps_per_epoch=3)


def test_more_steps_in_an_epoch_than_batches_are_refused(table):
    loss = "sparse_categorical_crossentropy"
    with pytest.raises(InvalidData, match=r"batch 3: expected 10 batches.* the end of the data"):
        train(dense_model(), batches(table), loss=loss, steps_per_epoch=10)


def test_a_dataset_of_unknown_length_without_an_end_has_epochs(table):
    data = dataset_of(itertools.cycle(rows_in_sizes(table, 32, 32)))
    loss = "sparse_categorical_crossentropy"
    result, _, _ = train(dense_model(), data, loss=loss, steps_per_epoch=3, epochs=2)
    assert result.steps == 6


@pytest.mark.parametrize("kind", ["arrays", "tf.data", "PyDataset"])
def test_a_resumed_run_equals_an_uninterrupted_one(table, tmp_path, kind):
    def trainer(folder, epochs, resume=False):
        keras.utils.set_random_seed(3)
        model = dense_model()
        data = {"arrays": table, "tf.data": batches(table), "PyDataset": Rows(*table, 32)}[kind]
        size = {"batch_size": 32} if kind == "arrays" else {}
        return ampcore.Trainer.from_keras(
            model,
            data=data,
            loss="sparse_categorical_crossentropy",
            policy="mixed_float16",
            epochs=epochs,
            output_dir=folder,
            resume=resume,
            **size,
            **GRAPH,
        )

    whole = trainer(tmp_path / "whole", 4).run()
    trainer(tmp_path / "parts", 2).run()
    resumed = trainer(tmp_path / "parts", 4, resume=True).run()
    assert resumed.weights_digest == whole.weights_digest


class Scaled(keras.layers.Layer):
    """A layer whose weight has no name."""

    def build(self, input_shape):
        self.scale = self.add_weight(shape=(input_shape[-1],), initializer="ones")

    def call(self, inputs):
        return inputs * self.scale


def test_a_run_resumes_after_layers_and_optimizer_were_numbered_further(table, tmp_path):
    """As in a notebook, where the cell that creates the model is run again."""

    def run(epochs, *, resume):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((6,))
        hidden = Scaled()(keras.layers.Dense(8, activation="relu")(inputs))
        outputs = [keras.layers.Dense(3, activation="softmax")(hidden) for _ in range(2)]
        return ampcore.Trainer.from_keras(
            keras.Model(inputs, outputs),
            data=(table[0], [table[1], table[1]]),
            loss=["sparse_categorical_crossentropy"] * 2,
            optimizer=keras.optimizers.Adam(0.01),
            batch_size=32,
            epochs=epochs,
            output_dir=tmp_path / ("parts" if resume is not None else "whole"),
            resume=bool(resume),
            **GRAPH,
        ).run()

    whole = run(4, resume=None)
    run(2, resume=False)
    assert run(4, resume=True).weights_digest == whole.weights_digest


def test_a_run_with_a_generator_refuses_to_resume(table, tmp_path):
    def endless():
        while True:
            yield table[0][:32], table[1][:32]

    def run(epochs, *, resume):
        return train(
            dense_model(),
            endless(),
            loss="sparse_categorical_crossentropy",
            steps_per_epoch=3,
            epochs=epochs,
            output_dir=tmp_path,
            resume=resume,
        )

    run(1, resume=False)
    with pytest.raises(IncompatibleCheckpoint, match="a generator only goes forward"):
        run(2, resume=True)


def test_a_checkpoint_of_another_model_is_refused(table, tmp_path):
    loss = "sparse_categorical_crossentropy"
    train(dense_model(), table, loss=loss, output_dir=tmp_path)
    other = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2, activation="softmax")])
    with pytest.raises(IncompatibleCheckpoint, match=r"model\.variables"):
        train(other, table, loss=loss, output_dir=tmp_path, resume=True, epochs=4)


class OwnStep(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        return {}


def own_step():
    model = OwnStep()
    model(np.zeros((1, 6), np.float32))
    return model


def compiled_model():
    model = dense_model()
    model.compile("sgd", "mse")
    return model


def own_metric(targets, predictions):
    return predictions[:, 0]


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (lambda: "mlp", {}, "model: expected a keras.Model; received str"),
        (lambda: keras.Sequential([keras.layers.Dense(2)]), {}, "a built model"),
        (own_step, {}, "train_step of its own"),
        (compiled_model, {"loss": None}, "that of `compile` is not used: pass loss=model.loss"),
        (dense_model, {"loss": "mean"}, "the name of a loss in keras.losses"),
        (dense_model, {"metrics": [3]}, "the name of a metric in keras.metrics"),
        (dense_model, {"metrics": ["mae", "mae"]}, "a different name for each metric.*'mae' twice"),
        (
            dense_model,
            {"metrics": [keras.metrics.Mean(name="loss")]},
            "none of a loss; received 'loss' twice",
        ),
        (
            two_output_model,
            {
                "loss": dict.fromkeys(("one", "two"), "mse"),
                "metrics": {"two": keras.metrics.MeanSquaredError(name="loss")},
                "data": (np.zeros((4, 6)), {"one": np.zeros((4, 1)), "two": np.zeros((4, 1))}),
            },
            "none of a loss; received 'two_loss' twice",
        ),
        (dense_model, {"optimizer": keras.optimizers.SGD(0.0)}, "a learning_rate above 0"),
        (dense_model, {"optimizer": "adamm"}, "the name of an optimizer in keras.optimizers"),
        (dense_model, {"loss": {"price": "mse"}}, r"outputs of the model: scores"),
        (
            dense_model,
            {"optimizer": keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD())},
            "an optimizer without a loss scale",
        ),
        (
            dense_model,
            {"loss": keras.losses.MeanSquaredError(reduction="none")},
            "expected a loss with a reduction: .*received MeanSquaredError",
        ),
        (nested_outputs_model, {}, "expected outputs that are .*; received list within a dict"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_a_sentence(table, model, arguments, message):
    options = {"data": table, "loss": "sparse_categorical_crossentropy"} | arguments
    with pytest.raises(InvalidModel, match=message):
        ampcore.Trainer.from_keras(model(), **options)


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        (lambda x, y: (x, y[:5]), {}, "y: expected 96 rows"),
        (lambda x, y: (x, y.astype(str)), {}, "y: expected numbers"),
        (lambda x, y: (x[:0], y[:0]), {}, "at least one example"),
        (lambda x, y: x, {}, "targets for the outputs with a loss: scores"),
        (lambda x, y: (x, {"price": y}), {}, "targets for the outputs with a loss: scores"),
        (
            lambda x, y: (x[:, :3], y),
            {},
            r"x: expected inputs .*\(None, 6\); received \(None, 3\)",
        ),
        (lambda x, y: ({"a": x}, y), {}, r"x: expected inputs .*; received {'a': \(None, 6\)}"),
        (lambda x, y: (x, y), {"batch_size": 97}, "at most 96 examples"),
        (lambda x, y: batches((x, y)).repeat(), {}, "steps_per_epoch: expected a number"),
        (lambda x, y: batches((x, y)), {"batch_size": 7}, "batch_size: expected 32"),
    ],
)
def test_unsuitable_data_is_refused_with_the_field(table, data, arguments, message):
    with pytest.raises(InvalidData, match=message):
        ampcore.Trainer.from_keras(
            dense_model(),
            data=data(*table),
            loss="sparse_categorical_crossentropy",
            **arguments,
        )


def test_validation_examples_of_another_shape_are_refused(table):
    other = np.zeros((ROWS, 3), np.float32), table[1]
    with pytest.raises(InvalidData, match="validation_data: expected examples as in data"):
        train(dense_model(), table, loss="mse", validation_data=other)


def test_a_loss_of_several_values_is_refused_by_name(table):
    with pytest.raises(InvalidModel, match=r"loss\['scores'\]: .*one number .*shape \(32, 2\)"):
        train(dense_model(), table, loss=VectorLoss())


def test_settings_are_checked_as_those_of_a_spec(table):
    with pytest.raises(SpecValidationError, match="/train/epochs"):
        ampcore.Trainer.from_keras(dense_model(), data=table, loss="mse", epochs=0)
    with pytest.raises(SpecValidationError, match="/precision/policy"):
        ampcore.Trainer.from_keras(dense_model(), data=table, loss="mse", policy="float61")


def test_a_keras_model_in_place_of_a_spec_names_from_keras():
    with pytest.raises(TypeError, match=r"Trainer\.from_keras"):
        ampcore.Trainer(dense_model())


class NeedsPeriod(keras.optimizers.SGD):
    """Has an argument that its config lacks, and the slots of Keras's class."""

    def __init__(self, period):
        super().__init__(0.01, momentum=0.9)
        self.period = period


class KeepsThree(keras.optimizers.Optimizer):
    """Has slots of its own, and no config."""

    def __init__(self):
        super().__init__(learning_rate=0.01)

    def build(self, variables):
        super().build(variables)
        self.slots = self.add_optimizer_variables(variables, ["one", "two", "three"])

    def update_step(self, gradient, variable, learning_rate):
        self.assign_sub(variable, gradient * keras.ops.cast(learning_rate, gradient.dtype))

    def get_config(self):
        raise NotImplementedError


def memory_of_optimizer(table, optimizer):
    """The estimate in numbers per weight, and the codes of the findings."""
    events = []
    trainer = ampcore.Trainer.from_keras(
        dense_model(), data=table, loss="sparse_categorical_crossentropy", optimizer=optimizer,
        train=ampcore.Train(steps=1), **GRAPH,
    )  # fmt: skip
    trainer.run(on_event=events.append)
    first, *findings = [event.data for event in events if event.type == EventType.PREFLIGHT]
    memory = first["data"]["memory"]["float32"]
    return memory["optimizer"] / memory["gradients"], {each["code"] for each in findings}


@pytest.mark.parametrize(
    ("create", "numbers", "is_assumed"),
    [
        (lambda: NeedsPeriod(3), 1, False),
        (lambda: keras.optimizers.Adam(amsgrad=True), 3, False),
        (KeepsThree, 2, True),
    ],
    ids=["argument", "config", "unknown"],
)
def test_the_estimate_counts_the_slots_or_says_that_it_assumes_two(
    table, create, numbers, is_assumed
):
    found, codes = memory_of_optimizer(table, create())
    assert found == numbers
    assert ("optimizer_slots_assumed" in codes) == is_assumed
