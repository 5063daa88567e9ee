"""Single features of Keras that public models use: ties, adapters, routers, recomputation."""

from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from zoo.architecture import NO_KEYWORDS, Data, Deviation, adam, pattern_of
from zoo.patterns_attention import SPARSE
from zoo.patterns_sequences import LENGTH, WORDS, token_classes
from zoo.patterns_tables import ten_numbers

serializable = keras.saving.register_keras_serializable("zoo")


@serializable  # type: ignore[untyped-decorator]
class TransposedDense(layers.Layer):  # type: ignore[misc]
    """A dense layer with the transposed kernel of another one."""

    def __init__(self, other: Any, **options: Any) -> None:
        super().__init__(**options)
        self.other = other

    def build(self, input_shape: Any) -> None:
        """Only the bias is its own."""
        self.bias = self.add_weight(shape=(self.other.kernel.shape[0],), initializer="zeros")

    def call(self, inputs: Any) -> Any:
        """The product with the transposed kernel."""
        kernel = ops.cast(self.other.kernel, inputs.dtype)
        return ops.matmul(inputs, ops.transpose(kernel)) + self.bias

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        other = keras.saving.serialize_keras_object(self.other)
        return {**super().get_config(), "other": other}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A layer with another one that has the same config, and is not tied."""
        other = keras.saving.deserialize_keras_object(config.pop("other"))
        return cls(other, **config)


def tied_autoencoder() -> Any:
    """A decoder with the transposed kernel of the encoder."""
    inputs = keras.Input((10,))
    encoder = layers.Dense(4, activation="tanh", name="encoder")
    return keras.Model(inputs, TransposedDense(encoder, name="decoder")(encoder(inputs)))


def same_numbers(random: np.random.Generator, examples: int) -> Data:
    """Rows of numbers as inputs and as targets."""
    x = random.normal(size=(examples, 10)).astype(np.float32)
    return x, x


def lora() -> Any:
    """Adapters of rank 2 in dense, einsum and embedding layers; the rest is frozen."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, 16, name="embedding")(inputs)
    x = layers.EinsumDense("abc,cd->abd", (None, 16), bias_axes="d", name="einsum")(x)
    x = layers.GlobalAveragePooling1D()(layers.Conv1D(8, 3, name="convolution")(x))
    model = keras.Model(inputs, layers.Dense(3, name="head")(x))
    for name in ("embedding", "einsum", "convolution"):
        layer = model.get_layer(name)
        layer.enable_lora(2) if hasattr(layer, "enable_lora") else None
    return model


@serializable  # type: ignore[untyped-decorator]
class RecomputedBlock(layers.Layer):  # type: ignore[misc]
    """A block whose activations are computed again in the backward pass."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense_1 = layers.Dense(2 * width, activation="gelu")
        self.dense_2 = layers.Dense(width)

    def call(self, inputs: Any) -> Any:
        """The input and what is recomputed."""
        return inputs + keras.remat(self._inner)(inputs)

    def _inner(self, x: Any) -> Any:
        return self.dense_2(self.dense_1(x))


def remat() -> Any:
    """keras.remat around a function of a layer."""
    inputs = keras.Input((10,))
    x = layers.Dense(16, activation="relu")(inputs)
    x = RecomputedBlock(16)(RecomputedBlock(16)(x))
    return keras.Model(inputs, layers.Dense(1)(x))


def lambdas() -> Any:
    """Lambdas: a function of Python, one with TensorFlow, one with two inputs."""
    left, right = keras.Input((10,)), keras.Input((10,), dtype="int32")
    scaled = layers.Lambda(lambda x: x / 3.0 + 0.1)(left)
    counted = layers.Lambda(lambda x: tf.cast(x, "float32") * 0.01, output_shape=(10,))(right)
    both = layers.Lambda(lambda pair: pair[0] * pair[1], output_shape=(10,))([scaled, counted])
    x = layers.Dense(16, activation=lambda x: ops.sin(2.0 * x))(layers.Add()([both, scaled]))
    return keras.Model([left, right], layers.Dense(1)(x))


def floats_and_integers(random: np.random.Generator, examples: int) -> Data:
    """Numbers and integers."""
    x, y = ten_numbers(random, examples)
    return [x.astype(np.float32), random.integers(100, size=(examples, 10)).astype(np.int32)], y


def masked_pixels() -> Any:
    """A boolean mask, integers of eight bits and a scalar for each example."""
    image = keras.Input((8, 8, 1), dtype="uint8", name="image")
    mask = keras.Input((8, 8, 1), dtype="bool", name="mask")
    scale = keras.Input((), dtype="float32", name="scale")
    x = layers.Rescaling(1 / 255)(image)
    x = ops.where(mask, x, ops.zeros_like(x))
    x = layers.Conv2D(4, 3, activation="relu")(x)
    x = layers.Flatten()(x) * ops.reshape(scale, (-1, 1))
    return keras.Model({"image": image, "mask": mask, "scale": scale}, layers.Dense(1)(x))


def pixels(random: np.random.Generator, examples: int) -> Data:
    """Images, masks and scalars."""
    x = {
        "image": random.integers(256, size=(examples, 8, 8, 1)).astype(np.uint8),
        "mask": random.integers(2, size=(examples, 8, 8, 1)).astype(bool),
        "scale": random.uniform(0.5, 1.5, examples).astype(np.float32),
    }
    return x, random.normal(size=(examples, 1)).astype(np.float32)


@serializable  # type: ignore[untyped-decorator]
class MovingNormalization(layers.Layer):  # type: ignore[misc]
    """Batch normalization that a person wrote: its statistics are assigned in the call."""

    def build(self, input_shape: Any) -> None:
        """Create scale and statistics."""
        options = {"shape": (input_shape[-1],), "trainable": False}
        self.gamma = self.add_weight(shape=(input_shape[-1],), initializer="ones", name="gamma")
        self.mean = self.add_weight(initializer="zeros", name="moving_mean", **options)
        self.steps = self.add_weight(
            shape=(), initializer="zeros", dtype="int32", trainable=False, name="steps"
        )

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The inputs without the mean of the batch, or without the moving one."""
        if not training:
            return (inputs - ops.cast(self.mean, inputs.dtype)) * ops.cast(self.gamma, inputs.dtype)
        mean = ops.mean(inputs, axis=0)
        self.mean.assign(0.9 * self.mean + 0.1 * ops.cast(mean, self.mean.dtype))
        self.steps.assign_add(1)
        return (inputs - mean) * ops.cast(self.gamma, inputs.dtype)


def moving_normalization() -> Any:
    """Layers that assign their own statistics."""
    return keras.Sequential(
        [
            keras.Input((10,)),
            layers.Dense(16),
            MovingNormalization(),
            layers.Activation("tanh"),
            layers.Dense(8, activation="relu"),
            MovingNormalization(),
            layers.Dense(1),
        ]
    )


def nested_models() -> Any:
    """Models in models, one used twice, with results in dictionaries and lists."""
    inner_input = keras.Input((10,))
    hidden = layers.Dense(8, activation="relu")(inner_input)
    inner = keras.Model(inner_input, {"a": layers.Dense(4)(hidden), "b": hidden}, name="inner")
    middle = keras.Sequential(
        [keras.Input((4,)), layers.Dense(6), keras.Sequential([layers.Dense(4), layers.ReLU()])]
    )
    left, right = keras.Input((10,)), keras.Input((10,))
    first, second = inner(left), inner(right)
    x = layers.Concatenate()([middle(first["a"]), middle(second["a"]), first["b"] - second["b"]])
    return keras.Model([left, [right]], layers.Dense(1)(x))


def nested_numbers(random: np.random.Generator, examples: int) -> Data:
    """Rows of numbers in a nested list."""
    x, y = ten_numbers(random, examples)
    other, _ = ten_numbers(random, examples)
    return [x.astype(np.float32), [other.astype(np.float32)]], y.astype(np.float32)


@serializable  # type: ignore[untyped-decorator]
class MixedDtypes(layers.Layer):  # type: ignore[misc]
    """Adds a constant in float32 to whatever it gets."""

    def call(self, inputs: Any) -> Any:
        """The sum, by an operator of TensorFlow."""
        return tf.add(inputs, tf.constant(0.5, tf.float32))


def mixed_dtypes() -> Any:
    """A layer that is written for float32 alone."""
    inputs = keras.Input((10,))
    x = MixedDtypes(name="shift")(layers.Dense(16, activation="relu")(inputs))
    return keras.Model(inputs, layers.Dense(1)(x))


pattern = partial(pattern_of, "layers")
LAMBDA_ACTIVATION = Deviation(
    "Keras saves a lambda as an activation, but cannot load it",
    "Could not interpret activation function",
    in_keras=True,
)
ONE_DTYPE = Deviation(
    "the layer adds a constant in float32: refused by its name with the override that helps",
    r"in shift: cast what it creates.*\"layers\": \"\^shift\$\"",
    in_keras="cannot compute|incompatible|float32",
)
ARCHITECTURES = (
    pattern(tied_autoencoder, "a layer with the kernel of another one", same_numbers, loss="mse"),
    pattern(lora, "adapters, frozen kernels", token_classes, loss=SPARSE, optimizer=adam),
    pattern(remat, "keras.remat", ten_numbers, loss="mse", deviations={"saved": NO_KEYWORDS}),
    pattern(
        lambdas,
        "functions without names",
        floats_and_integers,
        loss="mse",
        deviations={"saved": LAMBDA_ACTIVATION},
    ),
    pattern(masked_pixels, "bool, uint8 and scalar inputs", pixels, loss="mse"),
    pattern(moving_normalization, "statistics that a layer assigns", ten_numbers, loss="log_cosh"),
    pattern(nested_models, "models in models, nested inputs", nested_numbers, loss="mse"),
    pattern(
        mixed_dtypes,
        "a layer for float32 alone",
        ten_numbers,
        loss="mse",
        deviations={"mixed_bfloat16": ONE_DTYPE, "mixed_float16": ONE_DTYPE},
    ),
)
