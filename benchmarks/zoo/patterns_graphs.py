"""Models of graphs, points and volumes, as public examples build them."""

from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from zoo.architecture import Data, Deviation, pattern_of

serializable = keras.saving.register_keras_serializable("zoo")


NODES = 12
EDGES = np.random.default_rng(5).integers(NODES, size=(2, 40))


@serializable  # type: ignore[untyped-decorator]
class GraphConvolution(layers.Layer):  # type: ignore[misc]
    """Multiplies the features of nodes by a sparse, normalized matrix of a graph."""

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.units = units
        edges = sorted({*map(tuple, EDGES.T.tolist()), *((node, node) for node in range(NODES))})
        matrix = tf.SparseTensor(edges, tf.ones(len(edges)), (NODES, NODES))
        degrees = tf.sparse.reduce_sum(matrix, axis=1, keepdims=True)
        self.matrix = matrix / degrees
        self.dense = layers.Dense(units)

    def call(self, features: Any) -> Any:
        """The mean over the neighbours, and a dense layer."""
        flat = ops.reshape(ops.transpose(features, (1, 0, 2)), (NODES, -1))
        mean = tf.sparse.sparse_dense_matmul(self.matrix, tf.cast(flat, tf.float32))
        mean = ops.cast(mean, features.dtype)
        mean = ops.reshape(mean, (NODES, -1, features.shape[-1]))
        return self.dense(ops.transpose(mean, (1, 0, 2)))

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "units": self.units}


def graph_convolution() -> Any:
    """Two convolutions over one graph; a forecast for each node."""
    inputs = keras.Input((NODES, 4))
    x = layers.ReLU()(GraphConvolution(8)(inputs))
    x = layers.ReLU()(GraphConvolution(8)(x))
    return keras.Model(inputs, layers.Dense(1)(x))


def traffic(random: np.random.Generator, examples: int) -> Data:
    """Features of nodes, and a number for each node."""
    x = random.normal(size=(examples, NODES, 4)).astype(np.float32)
    return x, x.sum(-1, keepdims=True)


@serializable  # type: ignore[untyped-decorator]
class GraphAttention(layers.Layer):  # type: ignore[misc]
    """Attention over the edges of a graph; its edges are an input."""

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.units = units

    def build(self, input_shape: Any) -> None:
        """Create the weights."""
        self.kernel = self.add_weight(shape=(input_shape[0][-1], self.units), name="kernel")
        self.attention = self.add_weight(shape=(2 * self.units, 1), name="kernel_attention")

    def call(self, inputs: Any) -> Any:
        """The next features of the nodes."""
        nodes, edges = inputs
        states = ops.matmul(nodes, self.kernel)
        pairs = tf.gather(states, edges, axis=1, batch_dims=1)
        pairs = ops.reshape(pairs, (ops.shape(pairs)[0], -1, 2 * self.units))
        scores = ops.squeeze(ops.leaky_relu(ops.matmul(pairs, self.attention), 0.2), -1)
        scores = ops.exp(ops.clip(scores, -2, 2))
        sources = ops.one_hot(edges[..., 0], NODES, dtype=scores.dtype)
        total = ops.einsum("be,ben->bn", scores, sources) + 1e-3
        neighbours = tf.gather(states, edges[..., 1], axis=1, batch_dims=1)
        weighted = ops.einsum("be,ben,beu->bnu", scores, sources, neighbours)
        return weighted / ops.expand_dims(total, -1)

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "units": self.units}


def graph_attention() -> Any:
    """Attention over edges, a readout over nodes with weights of examples."""
    nodes = keras.Input((NODES, 4), name="nodes")
    edges = keras.Input((20, 2), dtype="int32", name="edges")
    x = layers.Activation("elu")(GraphAttention(8)([nodes, edges]))
    x = layers.GlobalSumPooling1D()(x) if hasattr(layers, "GlobalSumPooling1D") else ops.sum(x, 1)
    return keras.Model([nodes, edges], layers.Dense(1, activation="sigmoid")(x))


def molecules(random: np.random.Generator, examples: int) -> Data:
    """Nodes and edges, labels, and weights."""
    nodes = random.normal(size=(examples, NODES, 4)).astype(np.float32)
    edges = random.integers(NODES, size=(examples, 20, 2)).astype(np.int32)
    return [nodes, edges], random.integers(2, size=examples), random.uniform(0.5, 2, examples)


@serializable  # type: ignore[untyped-decorator]
class OrthogonalRegularizer(keras.regularizers.Regularizer):  # type: ignore[misc]
    """Penalizes matrices that are far from orthogonal."""

    def __init__(self, features: int, factor: float = 0.001) -> None:
        self.features, self.factor = features, factor
        self.identity = ops.eye(features)

    def __call__(self, x: Any) -> Any:
        """The penalty of a batch of matrices."""
        x = ops.reshape(x, (-1, self.features, self.features))
        products = ops.tensordot(x, x, axes=(2, 2))
        products = ops.reshape(products, (-1, self.features, self.features))
        return ops.sum(self.factor * ops.square(products - self.identity))

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {"features": self.features, "factor": self.factor}


def _transformation(inputs: Any, features: int) -> Any:
    bias = keras.initializers.Constant(np.eye(features).flatten())
    x = layers.Conv1D(8, 1, activation="relu")(inputs)
    x = layers.GlobalMaxPooling1D()(layers.BatchNormalization(momentum=0.0)(x))
    x = layers.Dense(
        features * features,
        kernel_initializer="zeros",
        bias_initializer=bias,
        activity_regularizer=OrthogonalRegularizer(features),
    )(x)
    return layers.Dot(axes=(2, 1))([inputs, layers.Reshape((features, features))(x)])


def point_net() -> Any:
    """Classifies clouds of points; learned rotations with an activity regularizer."""
    inputs = keras.Input((32, 3))
    x = layers.Conv1D(8, 1)(_transformation(inputs, 3))
    x = layers.Activation("relu")(layers.BatchNormalization(momentum=0.0)(x))
    x = layers.GlobalMaxPooling1D()(_transformation(x, 8))
    return keras.Model(inputs, layers.Dense(3, activation="softmax")(x))


def clouds(random: np.random.Generator, examples: int) -> Data:
    """Clouds of points, and classes."""
    x = random.normal(size=(examples, 32, 3)).astype(np.float32)
    return x, random.integers(3, size=examples)


def volume_network() -> Any:
    """Convolutions in three dimensions over a scan."""
    return keras.Sequential(
        [
            keras.Input((12, 12, 8, 1)),
            layers.Conv3D(4, 3, activation="relu"),
            layers.MaxPool3D(2),
            layers.BatchNormalization(),
            layers.GroupNormalization(2),
            layers.GlobalAveragePooling3D(),
            layers.Dense(8, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(1, activation="sigmoid"),
        ]
    )


def scans(random: np.random.Generator, examples: int) -> Data:
    """Scans and whether something is in them, as booleans."""
    x = random.normal(size=(examples, 12, 12, 8, 1)).astype(np.float32)
    return x, random.integers(2, size=(examples, 1)).astype(bool)


pattern = partial(pattern_of, "graphs")
FLOAT32_REGULARIZER = Deviation(
    "the regularizer subtracts a matrix in float32. The run gives it float32 in every policy; the "
    "saved model computes in bfloat16, where Keras gives it bfloat16, and fails as Keras does",
    "expected to be a bfloat16 tensor but is a float",
    in_keras=True,
)
NO_KERNEL = Deviation(
    "TensorFlow has no MaxPool3D for float16 on CPUs: refused by the layer's name, with the "
    "override that helps",
    r"float16.*max_pooling3d.*\"dtype\": \"float32\"",
    in_keras="No OpKernel",
)
CLASSES = "sparse_categorical_crossentropy"
BINARY = "binary_crossentropy"
ARCHITECTURES = (
    pattern(graph_convolution, "a sparse matrix in a layer", traffic, loss="mae"),
    pattern(
        graph_attention, "edges as integer inputs, weights of examples", molecules, loss=BINARY
    ),
    pattern(
        point_net,
        "an activity regularizer that a person wrote",
        clouds,
        loss=CLASSES,
        deviations={"saved": FLOAT32_REGULARIZER},
    ),
    pattern(
        volume_network,
        "three dimensions, boolean targets",
        scans,
        loss="binary_crossentropy",
        deviations={"mixed_float16": NO_KERNEL},
    ),
)
