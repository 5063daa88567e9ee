"""Models of tables, recommendations and graphs, as public examples build them."""

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from zoo.architecture import NO_KEYWORDS, Data, pattern_of

serializable = keras.saving.register_keras_serializable("zoo")


def people(random: np.random.Generator, examples: int) -> Data:
    """Numbers, codes and ids of people by name, and whether they earn much."""
    x: dict[str, Any] = {
        "age": random.uniform(17, 80, (examples, 1)).astype(np.float32),
        "hours": random.integers(10, 60, (examples, 1)),
        "education": random.integers(100, 106, (examples, 1)),
        "zip": random.integers(10_000, 99_999, (examples, 1)),
        "married": random.integers(2, size=(examples, 1)).astype(bool),
    }
    return x, (x["age"] + x["hours"] > 80).astype(np.float32)


def _inputs() -> dict[str, Any]:
    dtypes = {"age": "float32", "hours": "float32", "married": "bool"}
    names = ("age", "hours", "education", "zip", "married")
    return {name: keras.Input((1,), dtype=dtypes.get(name, "int64"), name=name) for name in names}


def wide_and_deep() -> Any:
    """Lookups, hashes, buckets and crosses in a linear part beside a deep one."""
    inputs = _inputs()
    lookup = layers.IntegerLookup(output_mode="one_hot")
    lookup.adapt(np.arange(100, 106)[:, None])
    normalize = layers.Normalization()
    normalize.adapt(np.random.default_rng(0).uniform(10, 80, (100, 2)))
    buckets = layers.Discretization(bin_boundaries=[25.0, 40.0, 60.0])(inputs["age"])
    crossed = layers.HashedCrossing(20, output_mode="one_hot")((inputs["education"], buckets))
    ids = layers.Hashing(50)(inputs["zip"])
    wide = layers.concatenate([lookup(inputs["education"]), crossed])
    embedded = layers.Flatten()(layers.Embedding(50, 4)(ids))
    numbers = normalize(layers.concatenate([inputs["age"], inputs["hours"]]))
    married = layers.CategoryEncoding(2, output_mode="one_hot")(
        ops.cast(inputs["married"], "int32")
    )
    deep = layers.concatenate([embedded, numbers, married])
    for _ in range(2):
        deep = layers.ReLU()(layers.BatchNormalization()(layers.Dense(16)(deep)))
    outputs = layers.Dense(1, activation="sigmoid")(layers.concatenate([wide, deep]))
    return keras.Model(inputs, outputs)


def wide_and_deep_strings() -> Any:
    """A lookup of strings in the model."""
    lookup = layers.StringLookup(vocabulary=["red", "green", "blue"], output_mode="one_hot")
    color = keras.Input((1,), dtype="string", name="color")
    size = keras.Input((1,), name="size")
    x = layers.concatenate([lookup(color), size])
    return keras.Model({"color": color, "size": size}, layers.Dense(1)(x))


def colors(random: np.random.Generator, examples: int) -> Data:
    """Strings and numbers."""
    color = np.array(["red", "green", "blue", "pink"])[random.integers(4, size=(examples, 1))]
    size = random.normal(size=(examples, 1)).astype(np.float32)
    return {"color": color, "size": size}, size


def deep_and_cross() -> Any:
    """Products of the features with themselves in each layer."""
    inputs = keras.Input((10,))
    cross = inputs
    for _ in range(2):
        cross = inputs * layers.Dense(10)(cross) + cross
    deep = layers.Dense(16, activation="relu")(inputs)
    outputs = layers.Dense(1)(layers.concatenate([layers.BatchNormalization()(cross), deep]))
    return keras.Model(inputs, outputs)


def ten_numbers(random: np.random.Generator, examples: int) -> Data:
    """Rows of numbers, and their mean."""
    x = random.normal(size=(examples, 10))
    return x, x.mean(axis=1)


@serializable  # type: ignore[untyped-decorator]
class GatedLinearUnit(layers.Layer):  # type: ignore[misc]
    """A linear layer times its gate."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.linear = layers.Dense(units)
        self.sigmoid = layers.Dense(units, activation="sigmoid")

    def call(self, inputs: Any) -> Any:
        """The product."""
        return self.linear(inputs) * self.sigmoid(inputs)


@serializable  # type: ignore[untyped-decorator]
class GatedResidualNetwork(layers.Layer):  # type: ignore[misc]
    """A gated network with a residual."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.units = units
        self.elu_dense = layers.Dense(units, activation="elu")
        self.linear_dense = layers.Dense(units)
        self.dropout = layers.Dropout(0.15)
        self.gate = GatedLinearUnit(units)
        self.norm = layers.LayerNormalization()
        self.project = layers.Dense(units)

    def call(self, inputs: Any) -> Any:
        """The next features."""
        x = self.dropout(self.linear_dense(self.elu_dense(inputs)))
        if inputs.shape[-1] != self.units:
            inputs = self.project(inputs)
        return self.norm(inputs + self.gate(x))


@serializable  # type: ignore[untyped-decorator]
class VariableSelection(layers.Layer):  # type: ignore[misc]
    """Weighs features by a softmax; its layers are in a list."""

    def __init__(self, features: int, units: int) -> None:
        super().__init__()
        self.grns = [GatedResidualNetwork(units) for _ in range(features)]
        self.grn_concat = GatedResidualNetwork(units)
        self.softmax = layers.Dense(features, activation="softmax")

    def call(self, inputs: Any) -> Any:
        """The weighted sum."""
        weights = ops.expand_dims(self.softmax(self.grn_concat(ops.concatenate(inputs, -1))), -1)
        parts = [grn(feature) for grn, feature in zip(self.grns, inputs, strict=True)]
        return ops.squeeze(ops.matmul(ops.transpose(weights, (0, 2, 1)), ops.stack(parts, 1)), 1)


def variable_selection() -> Any:
    """Gated residual networks for each feature."""
    inputs = [keras.Input((2,), name=f"feature_{number}") for number in range(3)]
    x = VariableSelection(3, 8)(inputs)
    return keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))


def three_features(random: np.random.Generator, examples: int) -> Data:
    """Three arrays, and whether their sum is positive."""
    x = [random.normal(size=(examples, 2)).astype(np.float32) for _ in range(3)]
    return x, (np.sum(x, axis=(0, 2)) > 0).astype(np.float32)[:, None]


class RecommenderNet(keras.Model):  # type: ignore[misc]
    """Embeddings of users and films with biases, and the product of both."""

    def __init__(self, users: int, films: int, width: int) -> None:
        super().__init__()
        options = {
            "embeddings_initializer": "he_normal",
            "embeddings_regularizer": keras.regularizers.l2(1e-3),
        }
        self.user_embedding = layers.Embedding(users, width, **options)
        self.film_embedding = layers.Embedding(films, width, **options)
        self.user_bias, self.film_bias = layers.Embedding(users, 1), layers.Embedding(films, 1)

    def call(self, inputs: Any) -> Any:
        """The rating from 0 to 1."""
        user, film = inputs[:, 0], inputs[:, 1]
        product = ops.sum(self.user_embedding(user) * self.film_embedding(film), -1, keepdims=True)
        return ops.nn.sigmoid(product + self.user_bias(user) + self.film_bias(film))


serializable(RecommenderNet)


def recommender() -> Any:
    """The subclassed model, built by a call."""
    model = RecommenderNet(20, 30, 8)
    model(np.zeros((1, 2), np.int64))
    return model


def ratings(random: np.random.Generator, examples: int) -> Data:
    """Ids of users and films, and ratings."""
    ids = np.stack([random.integers(20, size=examples), random.integers(30, size=examples)], 1)
    return ids, random.uniform(size=examples).astype(np.float32)


@serializable  # type: ignore[untyped-decorator]
class NeuralTree(keras.Model):  # type: ignore[misc]
    """A decision tree whose decisions are sigmoids; a model as a layer, without get_config."""

    def __init__(self, depth: int, features: int, rate: float) -> None:
        super().__init__()
        self.depth, self.leaves = depth, 2**depth
        random = np.random.default_rng(depth)
        chosen = random.choice(features, int(features * rate), replace=False)
        self.used_features = np.eye(features, dtype=np.float32)[chosen]
        self.pi = self.add_weight(
            shape=(self.leaves, 2), initializer="random_normal", trainable=True, name="pi"
        )
        self.decision = layers.Dense(self.leaves, activation="sigmoid", name="decision")

    def call(self, features: Any) -> Any:
        """The probabilities of the classes."""
        batch = ops.shape(features)[0]
        used = ops.transpose(ops.convert_to_tensor(self.used_features, features.dtype))
        decisions = ops.expand_dims(self.decision(ops.matmul(features, used)), axis=2)
        decisions = ops.concatenate([decisions, 1 - decisions], axis=2)
        mu = ops.ones([batch, 1, 1], features.dtype)
        begin, end = 1, 2
        for level in range(self.depth):
            mu = ops.reshape(mu, [batch, -1, 1])
            mu = ops.tile(mu, (1, 1, 2)) * decisions[:, begin:end, :]
            begin, end = end, end + 2 ** (level + 1)
        mu = ops.reshape(mu, [batch, self.leaves])
        return ops.matmul(mu, ops.softmax(ops.cast(self.pi, features.dtype)))


def neural_forest() -> Any:
    """The mean of several trees."""
    inputs = keras.Input((10,))
    x = layers.BatchNormalization()(inputs)
    trees = [NeuralTree(3, 10, 0.5)(x) for _ in range(3)]
    return keras.Model(inputs, layers.Average()(trees))


def two_classes(random: np.random.Generator, examples: int) -> Data:
    """Rows of numbers, and whether their sum is positive."""
    x = random.normal(size=(examples, 10)).astype(np.float32)
    return x, (x.sum(axis=1) > 0).astype(np.int32)


def quantiles() -> Any:
    """Three quantiles of one number, each an output."""
    inputs = keras.Input((10,))
    x = layers.Dense(16, activation="swish", kernel_constraint="max_norm")(inputs)
    x = layers.UnitNormalization()(layers.Dense(8, activation="selu")(x))
    return keras.Model(
        inputs, {f"q{level}": layers.Dense(1, name=f"q{level}")(x) for level in (1, 5, 9)}
    )


def three_targets(random: np.random.Generator, examples: int) -> Data:
    """Rows of numbers, and the same target for each output."""
    x, y = ten_numbers(random, examples)
    return x, dict.fromkeys(("q1", "q5", "q9"), y[:, None])


def pinball(level: float) -> Any:
    """The loss of a quantile, a closure."""

    def loss(y_true: Any, y_pred: Any) -> Any:
        error = ops.cast(y_true, y_pred.dtype) - y_pred
        return ops.mean(ops.maximum(level * error, (level - 1) * error), axis=-1)

    return loss


def averaged_adam() -> Any:
    """Adam with clipping, averages of weights and decay."""
    return keras.optimizers.AdamW(
        keras.optimizers.schedules.CosineDecay(1e-3, 20),
        weight_decay=0.01,
        global_clipnorm=1.0,
        use_ema=True,
        ema_momentum=0.9,
    )


pattern = partial(pattern_of, "tables and graphs")
BINARY = "binary_crossentropy"
ARCHITECTURES = (
    pattern(
        wide_and_deep,
        "IntegerLookup, Hashing, HashedCrossing, Discretization; int and bool inputs",
        people,
        loss=BINARY,
        metrics=("accuracy",),
    ),
    pattern(
        wide_and_deep_strings,
        "StringLookup in the model",
        colors,
        loss="mse",
        checks=("refused",),
        refusal="encode text and categories as integers first",
    ),
    pattern(deep_and_cross, "products of features, float64 arrays", ten_numbers, loss="mse"),
    pattern(
        variable_selection,
        "gated residual networks in lists, no get_config",
        three_features,
        loss=BINARY,
        deviations={"saved": NO_KEYWORDS},
    ),
    pattern(
        recommender,
        "a subclassed model, regularized embeddings",
        ratings,
        loss=BINARY,
        deviations={"saved": NO_KEYWORDS},
    ),
    pattern(
        neural_forest,
        "models as layers, each with a trainable table",
        two_classes,
        loss="sparse_categorical_crossentropy",
        deviations={"saved": NO_KEYWORDS},
    ),
    pattern(
        quantiles,
        "closures as losses, constraints, AdamW with averages, clipping and a schedule",
        three_targets,
        loss={"q1": pinball(0.1), "q5": pinball(0.5), "q9": pinball(0.9)},
        optimizer=averaged_adam,
    ),
)
