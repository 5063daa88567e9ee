"""Transformers and other models with attention, as public examples build them."""

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from zoo.architecture import NO_KEYWORDS, Data, adam, pattern_of
from zoo.patterns_sequences import LENGTH, WORDS, token_classes

serializable = keras.saving.register_keras_serializable("zoo")


@serializable  # type: ignore[untyped-decorator]
class TokenAndPosition(layers.Layer):  # type: ignore[misc]
    """The embeddings of tokens and of their positions; Keras makes its config."""

    def __init__(self, length: int, words: int, width: int, mask: bool = False) -> None:
        super().__init__()
        self.tokens = layers.Embedding(words, width, mask_zero=mask)
        self.positions = layers.Embedding(length, width)

    def call(self, inputs: Any) -> Any:
        """The sum of both."""
        return self.tokens(inputs) + self.positions(ops.arange(ops.shape(inputs)[-1]))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The mask of the tokens."""
        return self.tokens.compute_mask(inputs)


@serializable  # type: ignore[untyped-decorator]
class TransformerBlock(layers.Layer):  # type: ignore[misc]
    """Attention and a feed-forward network, each added to its input; causal or not."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.supports_masking = True
        self.width, self.heads, self.causal = width, heads, causal
        self.attention = layers.MultiHeadAttention(heads, width // heads)
        self.feed_forward = keras.Sequential(
            [layers.Dense(2 * width, activation="relu"), layers.Dense(width)]
        )
        self.norm_1 = layers.LayerNormalization(epsilon=1e-6)
        self.norm_2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout = layers.Dropout(0.1)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The next hidden states."""
        attended = self.attention(inputs, inputs, use_causal_mask=self.causal)
        x = self.norm_1(inputs + self.dropout(attended, training=training))
        return self.norm_2(x + self.feed_forward(x))

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {"width": self.width, "heads": self.heads, "causal": self.causal}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """A new block."""
        return cls(**config)


def transformer_classifier() -> Any:
    """Classifies padded text; blocks of a person's own with dropout."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = TokenAndPosition(LENGTH, WORDS, 16)(inputs)
    x = TransformerBlock(16, 2)(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(0.1)(x)
    return keras.Model(inputs, layers.Dense(3, activation="softmax")(x))


def next_tokens(random: np.random.Generator, examples: int) -> Data:
    """Tokens, and the same ones a position ahead; nothing for the second output."""
    tokens = (random.integers(WORDS, size=(examples, 1)) + np.arange(LENGTH + 1)) % WORDS
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:]


@serializable  # type: ignore[untyped-decorator]
class PaddedEmbedding(layers.Layer):  # type: ignore[misc]
    """Embeddings with fixed sinusoids, times the root of the width, and a mask."""

    def __init__(self, words: int, width: int, **options: Any) -> None:
        super().__init__(**options)
        self.words, self.width = words, width
        self.embedding = layers.Embedding(words, width, mask_zero=True)
        angles = np.arange(64)[:, None] / 10000.0 ** (np.arange(width // 2) / (width // 2))
        self.sinusoids = np.concatenate([np.sin(angles), np.cos(angles)], -1).astype(np.float32)

    def compute_mask(self, *arguments: Any, **options: Any) -> Any:
        """The mask of the embedding."""
        return self.embedding.compute_mask(*arguments, **options)

    def call(self, x: Any) -> Any:
        """The sum."""
        length = ops.shape(x)[1]
        x = self.embedding(x)
        x *= ops.sqrt(ops.cast(self.width, x.dtype))
        return x + ops.cast(ops.convert_to_tensor(self.sinusoids)[None, :length], x.dtype)

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "words": self.words, "width": self.width}


@serializable  # type: ignore[untyped-decorator]
class CrossAttention(layers.Layer):  # type: ignore[misc]
    """Attention to a context, whose scores are kept as an attribute."""

    def __init__(self, width: int, **options: Any) -> None:
        super().__init__(**options)
        self.width = width
        self.attention = layers.MultiHeadAttention(2, width // 2)
        self.norm, self.add = layers.LayerNormalization(), layers.Add()

    def call(self, x: Any, context: Any) -> Any:
        """The next hidden states."""
        attended, scores = self.attention(
            query=x, key=context, value=context, return_attention_scores=True
        )
        self.last_scores = scores
        return self.norm(self.add([x, attended]))

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "width": self.width}


def translation_transformer() -> Any:
    """An encoder and a decoder with masks through layers of a person's own; named inputs."""
    source = keras.Input((None,), dtype="int64", name="source")
    target = keras.Input((None,), dtype="int64", name="target")
    context = TransformerBlock(16, 2)(PaddedEmbedding(WORDS, 16)(source))
    x = TransformerBlock(16, 2, causal=True)(PaddedEmbedding(WORDS, 16)(target))
    x = CrossAttention(16)(x, context)
    outputs = layers.Dense(WORDS, name="next_word")(x)
    return keras.Model({"source": source, "target": target}, outputs)


def masked_loss(label: Any, prediction: Any) -> Any:
    """The mean cross entropy where the label is not 0."""
    losses = keras.losses.sparse_categorical_crossentropy(label, prediction, from_logits=True)
    mask = ops.cast(label != 0, losses.dtype)
    return ops.sum(losses * mask) / ops.sum(mask)


def masked_accuracy(label: Any, prediction: Any) -> Any:
    """The share of right tokens that are not padding."""
    right = ops.cast(label, "int64") == ops.cast(ops.argmax(prediction, -1), "int64")
    mask = ops.cast(label != 0, "float32")
    return ops.sum(ops.cast(right, "float32") * mask) / ops.sum(mask)


def translations(random: np.random.Generator, examples: int) -> Data:
    """Padded tokens as source, and shifted ones as target."""
    tokens, _ = token_classes(random, examples)
    shifted = np.where(tokens > 0, (tokens + 3) % (WORDS - 1) + 1, 0).astype(np.int64)
    target = np.concatenate([np.ones((examples, 1), np.int64), shifted], axis=1)
    return {"source": tokens.astype(np.int64), "target": target[:, :-1]}, target[:, 1:]


class SubclassedSeq2Seq(keras.Model):  # type: ignore[misc]
    """A subclassed model: GRUs with Bahdanau's attention, sub-models as attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.source_embedding = layers.Embedding(WORDS, 16, mask_zero=True)
        self.target_embedding = layers.Embedding(WORDS, 16, mask_zero=True)
        self.encoder = layers.Bidirectional(layers.GRU(16, return_sequences=True), merge_mode="sum")
        self.decoder = layers.GRU(16, return_sequences=True, return_state=True)
        self.attention = layers.AdditiveAttention()
        self.blocks = [layers.Dense(16, activation="tanh"), layers.Dense(WORDS)]

    def call(self, inputs: Any) -> Any:
        """The logits of the next tokens."""
        source, target = inputs
        mask = self.source_embedding.compute_mask(source)
        context = self.encoder(self.source_embedding(source), mask=mask)
        states, _ = self.decoder(self.target_embedding(target))
        attended = self.attention([states, context], mask=[None, mask])
        x = ops.concatenate([states, attended], axis=-1)
        for block in self.blocks:
            x = block(x)
        return x


serializable(SubclassedSeq2Seq)


def subclassed_seq2seq() -> Any:
    """The subclassed model, built by a call."""
    model = SubclassedSeq2Seq()
    model((np.ones((1, LENGTH), np.int64), np.ones((1, LENGTH), np.int64)))
    return model


def translation_tuples(random: np.random.Generator, examples: int) -> Data:
    """The translations with a tuple of inputs."""
    x, y = translations(random, examples)
    return (x["source"], x["target"]), y


def time_series_transformer() -> Any:
    """Classifies time series: attention over steps and convolutions with a kernel of 1."""
    inputs = keras.Input((24, 1))
    x = inputs
    for _ in range(2):
        attended = layers.MultiHeadAttention(key_dim=8, num_heads=2, dropout=0.1)(x, x)
        attended = layers.LayerNormalization(epsilon=1e-6)(layers.Dropout(0.1)(attended))
        residual = attended + x
        x = layers.Conv1D(8, 1, activation="relu")(residual)
        x = layers.Conv1D(1, 1)(layers.Dropout(0.1)(x))
        x = layers.LayerNormalization(epsilon=1e-6)(x) + residual
    x = layers.GlobalAveragePooling1D(data_format="channels_last")(x)
    return keras.Model(inputs, layers.Dense(2, activation="softmax")(x))


def labelled_waves(random: np.random.Generator, examples: int) -> Data:
    """Waves of two frequencies."""
    label = random.integers(2, size=examples)
    phase = random.uniform(0, 6, (examples, 1))
    x = np.sin((0.3 + 0.4 * label[:, None]) * np.arange(24) + phase)
    return x[..., None].astype(np.float32), label


@serializable  # type: ignore[untyped-decorator]
class Patches(layers.Layer):  # type: ignore[misc]
    """Cuts images into patches."""

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__(**options)
        self.size = size

    def call(self, images: Any) -> Any:
        """The pixels of each patch."""
        patches = ops.image.extract_patches(images, self.size)
        return ops.reshape(patches, (ops.shape(images)[0], -1, patches.shape[-1]))

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "size": self.size}


@serializable  # type: ignore[untyped-decorator]
class PatchEncoder(layers.Layer):  # type: ignore[misc]
    """A projection of patches, and a learned vector for each position."""

    def __init__(self, patches: int, width: int, **options: Any) -> None:
        super().__init__(**options)
        self.patches, self.width = patches, width
        self.projection = layers.Dense(width)
        self.position = layers.Embedding(patches, width)

    def call(self, patch: Any) -> Any:
        """The sum."""
        positions = ops.expand_dims(ops.arange(0, self.patches, 1), axis=0)
        return self.projection(patch) + self.position(positions)

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "patches": self.patches, "width": self.width}


def vision_transformer() -> Any:
    """Patches of an image, with a token for the class made from a weight."""
    inputs = keras.Input((16, 16, 3))
    x = PatchEncoder(16, 16)(Patches(4)(inputs))
    for _ in range(2):
        normalized = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([layers.MultiHeadAttention(2, 8, dropout=0.1)(normalized, normalized), x])
        hidden = layers.Dense(32, activation="gelu")(layers.LayerNormalization(epsilon=1e-6)(x))
        x = layers.Add()([layers.Dense(16)(hidden), x])
    x = layers.Flatten()(layers.LayerNormalization(epsilon=1e-6)(x))
    return keras.Model(inputs, layers.Dense(4)(layers.Dropout(0.5)(x)))


def small_images(random: np.random.Generator, examples: int) -> Data:
    """Images of 16 pixels, and classes."""
    x = random.normal(size=(examples, 16, 16, 3)).astype(np.float32)
    return x, random.integers(4, size=examples)


@serializable  # type: ignore[untyped-decorator]
class StochasticDepth(layers.Layer):  # type: ignore[misc]
    """Leaves out a block for some examples; the seed generator is its own."""

    def __init__(self, rate: float, **options: Any) -> None:
        super().__init__(**options)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, x: Any, training: Any = None) -> Any:
        """The input, or zeros for some examples."""
        if not training:
            return x
        keep = 1 - self.rate
        shape = (ops.shape(x)[0],) + (1,) * (len(x.shape) - 1)
        noise = keras.random.uniform(shape, 0, 1, seed=self.seed_generator)
        return (x / keep) * ops.cast(ops.floor(keep + noise), x.dtype)

    def get_config(self) -> dict[str, Any]:
        """What its constructor takes."""
        return {**super().get_config(), "rate": self.rate}


def compact_transformer() -> Any:
    """Convolutions make tokens; blocks are left out at random; pooling by learned weights."""
    inputs = keras.Input((16, 16, 3))
    x = layers.RandomFlip("horizontal", seed=1)(layers.Rescaling(0.5)(inputs))
    for filters in (8, 16):
        x = layers.Conv2D(filters, 3, padding="same", use_bias=False, activation="relu")(x)
        x = layers.MaxPool2D(3, 2, padding="same")(x)
    x = layers.Reshape((-1, 16))(x)
    for rate in (0.1, 0.2):
        normalized = layers.LayerNormalization(epsilon=1e-5)(x)
        attended = layers.MultiHeadAttention(2, 16, dropout=0.1)(normalized, normalized)
        x = layers.Add()([StochasticDepth(rate)(attended), x])
        hidden = layers.Dense(32, activation="gelu")(layers.LayerNormalization(epsilon=1e-5)(x))
        x = layers.Add()([StochasticDepth(rate)(layers.Dense(16)(hidden)), x])
    weights = layers.Softmax(axis=1)(layers.Dense(1)(x))
    pooled = layers.Flatten()(layers.Dot(axes=1)([weights, x]))
    return keras.Model(inputs, layers.Dense(4)(pooled))


pattern = partial(pattern_of, "attention")
SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

ARCHITECTURES = (
    pattern(
        transformer_classifier,
        "blocks that a person wrote, dropout",
        token_classes,
        deviations={"saved": NO_KEYWORDS},
        loss="sparse_categorical_crossentropy",
    ),
    pattern(
        translation_transformer,
        "masks through layers, a masked loss and metric",
        translations,
        loss=masked_loss,
        metrics=(masked_accuracy,),
    ),
    pattern(
        subclassed_seq2seq,
        "a subclassed model with a tuple of inputs, additive attention",
        translation_tuples,
        deviations={"saved": NO_KEYWORDS},
        loss=masked_loss,
    ),
    pattern(
        time_series_transformer,
        "attention with dropout over time series",
        labelled_waves,
        loss="sparse_categorical_crossentropy",
        optimizer=adam,
    ),
    pattern(vision_transformer, "patches, layers that a person wrote", small_images, loss=SPARSE),
    pattern(
        compact_transformer,
        "stochastic depth with seeds of its own, augmentation",
        small_images,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=3),
    ),
)
