"""Models whose layers add losses: routers, codebooks, noise and flows."""

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from zoo.architecture import NO_KEYWORDS, UNSAVED_SEED, Data, pattern_of
from zoo.patterns_attention import SPARSE, small_images
from zoo.patterns_layers import same_numbers
from zoo.patterns_sequences import LENGTH, WORDS, token_classes

serializable = keras.saving.register_keras_serializable("zoo")


@serializable  # type: ignore[untyped-decorator]
class Router(layers.Layer):  # type: ignore[misc]
    """Sends each token to one expert, and adds a loss for balance."""

    def __init__(self, experts: int, capacity: int) -> None:
        super().__init__()
        self.experts, self.capacity = experts, capacity
        self.route = layers.Dense(experts)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """What is sent to each place of each expert, and how it is combined."""
        logits = self.route(inputs)
        if training:
            logits += keras.random.uniform(ops.shape(logits), 0.9, 1.1, dtype=logits.dtype, seed=7)
        probabilities = ops.softmax(ops.cast(logits, "float32"), axis=-1)
        gate, index = ops.top_k(probabilities, k=1)
        mask = ops.one_hot(ops.squeeze(index, -1), self.experts)
        density, proxy = ops.mean(mask, axis=0), ops.mean(probabilities, axis=0)
        self.add_loss(ops.mean(density * proxy) * self.experts**2)
        position = ops.cast(ops.cumsum(mask, axis=0) * mask, "int32")
        mask *= ops.cast(ops.less(position, self.capacity), "float32")
        place = ops.one_hot(ops.sum(position * ops.cast(mask, "int32"), -1), self.capacity)
        combined = gate[..., None] * mask[..., None] * place[:, None, :]
        return ops.cast(combined > 0, inputs.dtype), ops.cast(combined, inputs.dtype)


@serializable  # type: ignore[untyped-decorator]
class Switch(layers.Layer):  # type: ignore[misc]
    """Experts that a router chooses."""

    def __init__(self, experts: int, width: int, tokens: int) -> None:
        super().__init__()
        self.experts, self.width = experts, width
        self.networks = [
            keras.Sequential([layers.Dense(width, activation="relu"), layers.Dense(width)])
            for _ in range(experts)
        ]
        self.router = Router(experts, tokens // experts)

    def call(self, inputs: Any) -> Any:
        """The combined outputs of the experts."""
        flat = ops.reshape(inputs, (-1, self.width))
        dispatch, combine = self.router(flat)
        sent = ops.einsum("td,tec->ecd", flat, dispatch)
        outputs = [network(sent[number]) for number, network in enumerate(self.networks)]
        outputs = ops.cast(ops.stack(outputs), inputs.dtype)
        return ops.reshape(ops.einsum("ecd,tec->td", outputs, combine), ops.shape(inputs))


def switch_transformer() -> Any:
    """A mixture of experts in place of a feed-forward network."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, 16)(inputs)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
    x = layers.LayerNormalization()(x + Switch(3, 16, 4 * LENGTH)(x))
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


@serializable  # type: ignore[untyped-decorator]
class VectorQuantizer(layers.Layer):  # type: ignore[misc]
    """The nearest rows of a codebook; the gradient goes straight through; losses are added."""

    def __init__(self, codes: int, width: int, **options: Any) -> None:
        super().__init__(**options)
        self.codes, self.width = codes, width
        self.embeddings = self.add_weight(
            shape=(width, codes), initializer="random_uniform", name="codebook"
        )

    def call(self, x: Any) -> Any:
        """The quantized vectors."""
        table = ops.cast(self.embeddings, x.dtype)
        flat = ops.reshape(x, (-1, self.width))
        distances = ops.sum(table**2, axis=0) - 2 * ops.matmul(flat, table)
        chosen = ops.one_hot(ops.argmin(distances, axis=1), self.codes, dtype=x.dtype)
        quantized = ops.reshape(ops.matmul(chosen, ops.transpose(table)), ops.shape(x))
        commitment = ops.mean((ops.stop_gradient(quantized) - x) ** 2)
        self.add_loss(0.25 * commitment + ops.mean((quantized - ops.stop_gradient(x)) ** 2))
        return x + ops.stop_gradient(quantized - x)

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "codes": self.codes, "width": self.width}


def vector_quantized() -> Any:
    """An autoencoder of images with a codebook."""
    inputs = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(inputs)
    x = VectorQuantizer(12, 4, name="quantizer")(layers.Conv2D(4, 1)(x))
    x = layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Conv2DTranspose(3, 3, padding="same")(x))


def same_images(random: np.random.Generator, examples: int) -> Data:
    """Images as inputs and as targets."""
    x, _ = small_images(random, examples)
    return x, x


@serializable  # type: ignore[untyped-decorator]
class Sampling(layers.Layer):  # type: ignore[misc]
    """Draws from a normal distribution with a seed generator, and adds the divergence."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs: Any) -> Any:
        """A sample."""
        mean, log_variance = inputs
        divergence = 1 + log_variance - ops.square(mean) - ops.exp(log_variance)
        self.add_loss(-0.5 * ops.mean(ops.sum(divergence, axis=1)))
        noise = keras.random.normal(ops.shape(mean), dtype=mean.dtype, seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_variance) * noise


def variational_autoencoder() -> Any:
    """A variational autoencoder whose divergence is a loss of a layer."""
    inputs = keras.Input((10,))
    x = layers.Dense(16, activation="relu")(inputs)
    z = Sampling()([layers.Dense(2, name="mean")(x), layers.Dense(2, name="log_variance")(x)])
    return keras.Model(inputs, layers.Dense(10)(layers.Dense(16, activation="relu")(z)))


@serializable  # type: ignore[untyped-decorator]
class Coupling(layers.Layer):  # type: ignore[misc]
    """An affine coupling with a mask; it adds the logarithm of its determinant as a loss."""

    def __init__(self, parity: int, **options: Any) -> None:
        super().__init__(**options)
        self.parity = parity
        self.mask = (np.arange(10) % 2 == parity).astype(np.float32)
        self.hidden = layers.Dense(16, activation="relu", kernel_regularizer="l2")
        self.scale, self.shift = layers.Dense(10, activation="tanh"), layers.Dense(10)

    def call(self, x: Any) -> Any:
        """The next variables."""
        mask = ops.cast(self.mask, x.dtype)
        hidden = self.hidden(x * mask)
        scale = self.scale(hidden) * (1 - mask)
        self.add_loss(-ops.mean(ops.sum(scale, axis=-1)))
        return x * mask + (1 - mask) * (x * ops.exp(scale) + self.shift(hidden))

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "parity": self.parity}


def normalizing_flow() -> Any:
    """Couplings; the loss is the negative logarithm of a likelihood."""
    inputs = x = keras.Input((10,))
    for number in range(4):
        x = Coupling(number % 2, name=f"coupling_{number}")(x)
    return keras.Model(inputs, x)


def negative_log_likelihood(_: Any, z: Any) -> Any:
    """That of a normal distribution, without its constant; targets are not used."""
    return 0.5 * ops.sum(ops.square(z), axis=-1)


pattern = partial(pattern_of, "added losses")
ARCHITECTURES = (
    pattern(
        switch_transformer,
        "mixture of experts, add_loss",
        token_classes,
        loss=SPARSE,
        deviations={"saved": NO_KEYWORDS},
    ),
    pattern(
        vector_quantized,
        "codebook, straight-through gradients, add_loss",
        same_images,
        loss="mse",
        chaotic="the nearest code changes with the last bits",
    ),
    pattern(
        variational_autoencoder,
        "noise with a seed generator, add_loss",
        same_numbers,
        loss="mse",
        deviations={"saved": UNSAVED_SEED},
    ),
    pattern(
        normalizing_flow,
        "couplings, a loss without targets",
        same_numbers,
        loss=negative_log_likelihood,
    ),
)
