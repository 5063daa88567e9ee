"""What a person's model and optimizer have beside their configs stays: nothing is copied."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ampcore
from ampspec.errors import InvalidModel

ROWS = 64
GRAPH = {"runtime": {"device": "cpu", "engine": "graph"}}
NO_RANGES = {"telemetry": {"ranges": {"enabled": False}}}
SGD = {"kind": "sgd", "learning_rate": 0.05}


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(1000, 50, (ROWS, 4)).astype("float32")


@pytest.fixture(scope="module")
def y(x):
    return x[:, :1] / 1000


def train(model, data, **arguments):
    """The result and the losses of two steps."""
    options = {"loss": "mse", "optimizer": SGD, "batch_size": 32, "shuffle": False}
    losses = []
    trainer = ampcore.Trainer.from_keras(
        model, data=data, **options | GRAPH | NO_RANGES | arguments
    )
    result = trainer.run(on_block=lambda block: losses.extend(block["loss"].tolist()))
    return result, losses


def arrays(variables):
    return [np.array(variable) for variable in variables]


def assert_equal(variables, expected):
    for variable, value in zip(variables, expected, strict=True):
        np.testing.assert_array_equal(np.array(variable), value, err_msg=variable.path)


def normalized(x, **options):
    """A model with an adapted layer, whose statistics are in no variable that it reads."""
    layer = keras.layers.Normalization()
    layer.adapt(x)
    hidden = keras.layers.Dense(8, "relu", name="hidden", **options)
    return keras.Sequential([keras.Input((4,)), layer, hidden, keras.layers.Dense(1)])


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "float16"])
def test_adapted_statistics_are_used_from_the_first_step_to_the_saved_model(x, y, policy, tmp_path):
    model = normalized(x)
    model.compile(loss="mse")
    expected = model.evaluate(x[:32], y[:32], verbose=0)
    _, losses = train(model, (x, y), policy=policy, output_dir=tmp_path)
    assert losses[0] == pytest.approx(expected, rel=0.02)
    saved = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(saved.predict(x, verbose=0), model.predict(x, verbose=0), atol=0.02)


def test_lookup_tables_are_used():
    ids = np.array([[10], [20], [30], [20]] * 16)
    layer = keras.layers.IntegerLookup(output_mode="one_hot")
    layer.adapt(ids)
    inputs = keras.Input((1,), dtype="int64")
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))
    before = model.predict(ids, verbose=0)
    result, losses = train(model, (ids, np.ones((ROWS, 1), np.float32)), epochs=4)
    assert losses[-1] < losses[0]
    assert (model.predict(ids, verbose=0) != before).all()
    assert result.policy == "float32"


class Block(keras.layers.Layer):
    """A layer with layers of its own, one of which is frozen later."""

    def __init__(self, **options):
        super().__init__(**options)
        self.inner = keras.layers.Dense(4, "relu")
        self.norm = keras.layers.BatchNormalization()
        self.outer = keras.layers.Dense(4)

    def call(self, inputs):
        return self.outer(self.norm(self.inner(inputs)))


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "bfloat16"])
def test_layers_that_were_frozen_after_they_were_made_stay_frozen(x, y, policy):
    inputs = keras.Input((4,))
    block = Block(name="block")
    model = keras.Model(inputs, keras.layers.Dense(1)(block(inputs / 1000)))
    block.inner.trainable = block.norm.trainable = False
    frozen = [*block.inner.variables, *block.norm.variables]
    rounded = [tf.cast(tf.cast(one, tf.bfloat16), tf.float32).numpy() for one in frozen]
    expected = rounded if policy == "bfloat16" else arrays(frozen)
    trained = arrays(block.outer.variables)
    train(model, (x, y), policy=policy)
    assert_equal(frozen, expected)
    assert (np.array(block.outer.kernel) != trained[0]).any()


def test_functions_and_lambdas_without_a_registered_name_are_used(x, y):
    options = {
        "activation": lambda z: tf.math.sin(2 * z),
        "kernel_initializer": lambda shape, dtype=None: tf.ones(shape, dtype) / 8,
        "kernel_regularizer": lambda kernel: 0.01 * tf.reduce_sum(kernel**2),
        "kernel_constraint": lambda kernel: tf.clip_by_value(kernel, -0.1, 0.1),
    }
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(8, name="hidden", **options)(inputs / 1000)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(loss=lambda targets, outputs: tf.reduce_mean((targets - outputs) ** 2))
    train(model, (x, y), policy="mixed_bfloat16")
    assert np.abs(np.array(model.get_layer("hidden").kernel)).max() <= 0.1


def test_the_given_optimizer_takes_the_steps_with_what_its_config_lacks(x, y):
    model = normalized(x)
    optimizer = keras.optimizers.AdamW(0.0001, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    biases = [one for one in model.trainable_variables if one.name == "bias"]
    for bias in biases:
        bias.assign(tf.ones_like(bias))
    result, _ = train(model, (x, y), optimizer=optimizer, epochs=10)
    assert optimizer.iterations.numpy() == result.steps == 20
    assert all(np.array(bias).min() > 0.99 for bias in biases)


def test_a_second_run_goes_on_with_model_and_optimizer_as_fit_does(x, y):
    trained = []
    for parts in ([4], [1, 3]):
        keras.utils.set_random_seed(0)
        model, optimizer = normalized(x), keras.optimizers.Adam(0.01)
        for epochs in parts:
            train(model, (x, y), optimizer=optimizer, epochs=epochs)
        trained.append(arrays(model.variables))
    for whole, in_parts in zip(*trained, strict=True):
        np.testing.assert_array_equal(whole, in_parts)


def stop(trainer):
    result = trainer.run(should_stop=iter([False, True]).__next__)
    assert result.stopped


def fail(trainer):
    def callback(block):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        trainer.run(on_block=callback)


@pytest.mark.parametrize(
    ("end", "policy", "is_built"),
    [
        (stop, "float32", True),
        (fail, "float32", False),
        (stop, "mixed_float16", False),
        (fail, "mixed_float16", True),
        (stop, "bfloat16", False),
        (fail, "bfloat16", False),  # a built optimizer is refused: see below
    ],
)
def test_a_run_that_does_not_complete_puts_everything_back(x, y, end, policy, is_built):
    model, optimizer = normalized(x), keras.optimizers.Nadam(0.01)
    if is_built:
        optimizer.build(model.trainable_variables)
        optimizer.iterations.assign(7)
    before = arrays(model.variables)
    policies = [layer.dtype_policy.name for layer in model.layers]
    arguments = {"optimizer": optimizer, "policy": policy, "epochs": 500, "loss": "mse"}
    options = arguments | GRAPH | NO_RANGES
    end(ampcore.Trainer.from_keras(model, data=(x, y), batch_size=32, **options))
    assert_equal(model.variables, before)
    assert {one.dtype for one in model.trainable_variables} == {"float32"}
    assert [layer.dtype_policy.name for layer in model.layers] == policies
    assert optimizer.iterations.numpy() == (7 if is_built else 0)
    slots = [one for one in optimizer.variables if one.path.startswith("nadam/sequential")]
    assert all(one.dtype == "float32" and not np.array(one).any() for one in slots)


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "O3"])
def test_weights_are_stored_in_16_bits_only_while_the_run_lasts(x, y, policy):
    model = normalized(x)
    variables = model.variables
    dtype = "bfloat16" if policy == "bfloat16" else "float16"
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    during = []
    options = {"optimizer": optimizer, "policy": policy, "batch_size": 32} | GRAPH | NO_RANGES
    trainer = ampcore.Trainer.from_keras(model, data=(x, y), loss="mse", **options)
    trainer.run(on_block=lambda _: during.append(model.get_layer("hidden").kernel.dtype))
    assert during[0] == dtype
    assert all(new is old for new, old in zip(model.variables, variables, strict=True))
    kernel = model.get_layer("hidden").kernel
    assert kernel.dtype == "float32"
    np.testing.assert_array_equal(kernel, tf.cast(tf.cast(kernel.value, dtype), tf.float32))
    assert {one.dtype for one in optimizer.variables} == {"float32", "int64"}


@pytest.mark.parametrize(
    ("policy", "other", "message"),
    [
        ("float32", True, "built for other weights"),
        ("float16", False, "a new optimizer, for a pol"),
    ],
)
def test_an_optimizer_that_cannot_be_used_is_refused(x, y, policy, other, message):
    model, optimizer = normalized(x), keras.optimizers.Adam()
    optimizer.build((normalized(x) if other else model).trainable_variables)
    before = arrays(model.variables)
    with pytest.raises(InvalidModel, match=message):
        train(model, (x, y), optimizer=optimizer, policy=policy)
    assert_equal(model.variables, before)


def test_an_operation_on_two_dtypes_in_a_layer_is_explained_with_the_override(x, y):
    class Positions(keras.layers.Layer):
        def call(self, inputs):
            return inputs + tf.ones_like(inputs, tf.float32)

    inputs = keras.Input((4,))
    hidden = Positions(name="positions")(keras.layers.Dense(4, name="dense")(inputs / 1000))
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    with pytest.raises(InvalidModel) as caught:
        train(model, (x, y), policy="mixed_float16")
    message = str(caught.value)
    assert "in positions" in message
    assert '{"layers": "^positions$", "dtype": "float32"}' in message
    assert "float32 that does not match type float16" in message
    overrides = [{"layers": "^positions$", "dtype": "float32"}]
    train(model, (x, y), precision={"policy": "mixed_float16", "overrides": overrides}, epochs=20)


class Mixing(keras.layers.Layer):
    """A layer that computes with the outputs of layers that policies keep in float32."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense, self.norm = keras.layers.Dense(4), keras.layers.LayerNormalization()
        self.gate = keras.layers.Dense(4, activation="softmax")
        self.table = keras.layers.Embedding(5, 4)
        self.stack = keras.Sequential([keras.layers.Dense(8), keras.layers.Softmax()])

    def call(self, inputs):
        keys = tf.zeros_like(inputs[:, 0], tf.int32)
        mixed = inputs + self.dense(inputs) * self.gate(inputs) + self.table(keys)
        return self.norm(mixed) + self.dense(self.stack(inputs)[:, :4])


class MixingModel(keras.Model):
    """The same in the call of a model."""

    def __init__(self):
        super().__init__()
        self.mixing, self.first = Mixing(), keras.layers.Dense(4)
        self.norm, self.out = keras.layers.LayerNormalization(), keras.layers.Dense(1)

    def call(self, inputs):
        hidden = self.first(inputs)
        return self.out(self.norm(hidden) + self.mixing(hidden) + hidden)


@pytest.mark.parametrize(
    ("policy", "is_subclassed"),
    [("mixed_float16", True), ("bfloat16", False), ("O1", False), ("O2", True)],
)
def test_a_layer_may_compute_with_outputs_that_stay_in_float32(x, y, policy, is_subclassed):
    keras.utils.set_random_seed(0)
    if is_subclassed:
        model = MixingModel()
        model(x[:1])
    else:
        inputs = keras.Input((4,))
        hidden = Mixing(name="mixing")(keras.layers.Dense(4)(inputs))
        model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    before = arrays(model.variables)
    small = x / 1000
    _, in_float32 = train(model, (small, y))
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)
    _, losses = train(model, (small, y), policy=policy, loss_scale=1.0)
    np.testing.assert_allclose(losses, in_float32, rtol=0.1)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16"])
def test_a_subclassed_model_may_compute_its_outputs_itself(x, y, policy):
    class Rating(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = keras.layers.Dense(8), keras.layers.Dense(8)
            self.bias = keras.layers.Dense(1)
            self.factor = self.add_weight(shape=(1,), initializer="ones", name="factor")

        def call(self, inputs):
            first = self.first(inputs)
            product = tf.reduce_sum(first * self.second(inputs), -1, keepdims=True)
            return tf.sigmoid(product * self.factor + self.bias(inputs) + first[:, :1])

    keras.utils.set_random_seed(0)
    model, dtypes = Rating(), []
    model(x[:1])
    before = arrays(model.variables)
    _, in_float32 = train(model, (x / 1000, y))
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)

    def loss(targets, outputs):
        dtypes.append(outputs.dtype)
        return keras.losses.mean_squared_error(targets, outputs)

    _, losses = train(model, (x / 1000, y), policy=policy, loss=loss, loss_scale=1.0)
    np.testing.assert_allclose(losses, in_float32, rtol=0.1)
    assert dtypes[-1] == "float32"


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "O2"])
def test_a_layer_may_compute_with_a_sub_layer_that_is_also_the_output(policy):
    """As the table of a language model, which is its output, too."""

    class Tokens(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.table = keras.layers.ReversibleEmbedding(9, 4)
            self.shift = keras.layers.Dense(4)

        def call(self, ids):
            embedded = self.table(ids)
            return embedded + self.shift(embedded)

    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,), dtype="int32")
    tokens = Tokens()
    hidden = keras.layers.Dense(4, name="hidden")(tokens(inputs))
    model = keras.Model(inputs, tokens.table(hidden, reverse=True))
    ids = np.random.default_rng(0).integers(9, size=(ROWS, 5)).astype(np.int32)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    before = arrays(model.variables)
    _, in_float32 = train(model, (ids, ids), loss=loss)
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)
    _, losses = train(model, (ids, ids), loss=loss, policy=policy, loss_scale=1.0)
    np.testing.assert_allclose(losses, in_float32, rtol=0.1)


@pytest.mark.parametrize("policy", ["mixed_float16", "bfloat16"])
def test_activations_are_computed_again_in_the_dtypes_of_the_policy(x, y, policy):
    class Recomputed(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = keras.layers.Dense(8, "gelu"), keras.layers.Dense(4)
            self.dtypes = []

        def call(self, inputs):
            return inputs + keras.remat(self.inner)(inputs)

        def inner(self, inputs):
            hidden = self.first(inputs)
            self.dtypes.append(hidden.dtype)
            return self.second(hidden)

    keras.utils.set_random_seed(0)
    inputs, block = keras.Input((4,)), Recomputed()
    model = keras.Model(inputs, keras.layers.Dense(1)(block(inputs / 1000)))
    before = arrays(model.variables)
    _, in_float32 = train(model, (x, y))
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)
    block.dtypes.clear()
    events, ranges = [], {"ranges": {"enabled": True}}
    trainer = ampcore.Trainer.from_keras(
        model,
        data=(x, y),
        loss="mse",
        optimizer=SGD,
        batch_size=32,
        shuffle=False,
        policy=policy,
        loss_scale=2.0**14 if policy == "mixed_float16" else 1.0,
        telemetry=ranges,
        **GRAPH,
    )
    losses = []
    trainer.run(on_block=lambda block: losses.extend(block["loss"]), on_event=events.append)
    np.testing.assert_allclose(losses, in_float32, rtol=0.1)
    assert policy.removeprefix("mixed_") in block.dtypes


@pytest.mark.parametrize("engine", ["graph", "xla_step"])
def test_weights_that_a_layer_assigns_in_its_call_train_as_in_fit(x, y, engine):
    def model():
        keras.utils.set_random_seed(0)
        dense = keras.layers.Dense(16, "relu", name="dense")
        normalized = keras.layers.SpectralNormalization(dense, name="spectral")
        return keras.Sequential([keras.Input((4,)), normalized, keras.layers.Dense(1)])

    small = x / 1000
    by_fit, by_run = model(), model()
    by_fit.compile(keras.optimizers.SGD(0.05), "mse", jit_compile=engine != "graph")
    by_fit.fit(small, y, batch_size=32, epochs=3, shuffle=False, verbose=0)
    optimizer = keras.optimizers.SGD(0.05)
    trainer = ampcore.Trainer.from_keras(
        by_run,
        data=(small, y),
        validation_data=(small, y),  # an evaluation does not move the vectors
        loss="mse",
        optimizer=optimizer,
        batch_size=32,
        epochs=3,
        shuffle=False,
        runtime={"device": "cpu", "engine": engine},
        **NO_RANGES,
    )
    trainer.run()
    for variable, expected in zip(by_run.variables, arrays(by_fit.variables), strict=True):
        np.testing.assert_allclose(variable, expected, rtol=1e-6, atol=1e-7, err_msg=variable.path)


def test_a_layer_with_a_state_from_batch_to_batch_is_refused_by_name():
    inputs = keras.Input(batch_shape=(4, 10, 3))
    hidden = keras.layers.LSTM(8, stateful=True, name="memory")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    data = np.ones((16, 10, 3), np.float32), np.ones((16, 1), np.float32)
    with pytest.raises(InvalidModel, match="stateful=True in memory"):
        train(model, data)


@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_losses_of_layers_are_added_up_in_float32(policy):
    def model(**regularizer):
        keras.utils.set_random_seed(0)
        hidden = keras.layers.Dense(64, "relu", name="hidden", **regularizer)
        return keras.Sequential([keras.Input((32,)), hidden, keras.layers.Dense(1)])

    data = np.full((64, 32), 8, np.float32), np.zeros((64, 1), np.float32)
    regularizer = {  # sums that are infinite in float16
        "activity_regularizer": keras.regularizers.L2(64.0),
        "kernel_regularizer": keras.regularizers.L2(1e4),
    }
    losses = {
        name: train(model(**regularizer), data, policy=name, optimizer="adam", loss_scale=1.0)[1]
        for name in ("float32", policy)
    }
    assert max(losses["float32"]) > 65504
    np.testing.assert_allclose(losses[policy], losses["float32"], rtol=0.01)


def test_a_loss_of_a_layer_with_several_values_is_added_up_as_in_fit(x, y):
    class Penalty(keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(tf.reduce_mean(inputs**2, axis=0))
            return inputs

    def model():
        keras.utils.set_random_seed(0)
        return keras.Sequential([keras.Input((4,)), Penalty(), keras.layers.Dense(1)])

    small = x / 1000
    by_fit = model()
    by_fit.compile(keras.optimizers.SGD(0.05), "mse")
    history = by_fit.fit(small, y, batch_size=32, shuffle=False, verbose=0)
    _, losses = train(model(), (small, y))
    assert np.mean(losses) == pytest.approx(history.history["loss"][0], rel=1e-6)


def created_in(policy):
    """A model that was created while this was Keras's global policy."""
    keras.mixed_precision.set_global_policy(policy)
    try:
        keras.utils.set_random_seed(0)
        hidden = keras.layers.Dense(8, "relu", name="hidden")
        return keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(1, name="out")])
    finally:
        keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize(
    ("created", "given", "reported", "computes_in"),
    [
        ("mixed_float16", None, "mixed_float16", {"hidden": "float16", "out": "float16"}),
        ("bfloat16", None, "bfloat16", {"hidden": "bfloat16", "out": "bfloat16"}),
        ("float32", None, "float32", {"hidden": "float32", "out": "float32"}),
        ("mixed_float16", "float32", "float32", {"hidden": "float32", "out": "float32"}),
        ("mixed_float16", "mixed_bfloat16", "mixed_bfloat16", {"hidden": "bfloat16"}),
    ],
)
def test_the_reported_policy_is_that_of_the_layers(  # noqa: PLR0917 - pytest gives names
    x, y, created, given, reported, computes_in
):
    model = created_in(created)
    before = [layer.dtype_policy.name for layer in model.layers]
    seen, events, blocks = {}, [], []
    for layer in model.layers:
        call = type(layer).call.__get__(layer)

        def recorded(inputs, *args, layer=layer, call=call, **named):
            outputs = call(inputs, *args, **named)
            if not tf.executing_eagerly():  # nor the call on an example
                seen.setdefault(layer.name, outputs.dtype.name)
            return outputs

        layer.__dict__["call"] = recorded
    result = ampcore.Trainer.from_keras(
        model,
        data=(x / 1000, y),
        loss="mse",
        policy=given,
        epochs=20,
        **GRAPH,
        **NO_RANGES,
    ).run(on_event=events.append, on_block=blocks.append)
    started = next(event.data for event in events if event.type == "started")
    assert result.policy == started["policy"] == reported
    assert started["policy_set_by"] == ("spec" if given else "model")
    assert {name: seen[name] for name in computes_in} == computes_in
    assert (blocks[0]["loss_scale"][0] > 1) == ("float16" in seen.values())
    assert [layer.dtype_policy.name for layer in model.layers] == before


def test_a_model_that_keras_cannot_save_keeps_what_was_trained(x, y, tmp_path):
    class Unsaveable(keras.layers.Layer):
        def call(self, inputs):
            return inputs

        def get_config(self):
            raise AttributeError("no attribute 'scaling'")

    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1)(Unsaveable()(inputs / 1000)))
    before, events = arrays(model.variables), []
    trainer = ampcore.Trainer.from_keras(
        model, data=(x, y), loss="mse", output_dir=tmp_path, **GRAPH, **NO_RANGES
    )
    result = trainer.run(on_event=events.append)
    [warning] = [event.data for event in events if event.data.get("code") == "model_not_saved"]
    assert "no attribute 'scaling'" in warning["message"]
    assert result.model_file is None
    assert (tmp_path / "weights.safetensors").exists()
    assert not list(tmp_path.glob(".model*"))
    assert (np.array(model.variables[0]) != before[0]).any()


def test_an_operation_without_a_kernel_in_16_bits_is_explained_with_the_override():
    layers = [keras.layers.MaxPool3D(name="pool"), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((4, 4, 4, 2)), *layers])
    data = np.ones((ROWS, 4, 4, 4, 2), np.float32), np.ones((ROWS, 1), np.float32)
    with pytest.raises(InvalidModel) as caught:
        train(model, data, policy="mixed_float16")
    assert "MaxPool3D in pool" in str(caught.value)
    overrides = [{"layers": "^pool$", "dtype": "float32"}]
    assert '"layers": "^pool$", "dtype": "float32"' in str(caught.value)
    train(model, data, policy="mixed_float16", overrides=overrides, loss_scale=1.0)
