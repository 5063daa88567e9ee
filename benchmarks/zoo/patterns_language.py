"""Small language models, as public examples build them."""

from functools import partial
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from zoo.architecture import NO_KEYWORDS, Data, pattern_of
from zoo.patterns_attention import SPARSE, TokenAndPosition, TransformerBlock, next_tokens
from zoo.patterns_sequences import LENGTH, WORDS

serializable = keras.saving.register_keras_serializable("zoo")


def grouped_query_attention() -> Any:
    """GroupedQueryAttention, RMSNormalization and SwiGLU, as in recent language models."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, 16)(inputs)
    normalized = layers.RMSNormalization()(x)
    attended = layers.GroupQueryAttention(8, 4, 2)(normalized, normalized, use_causal_mask=True)
    x = layers.Add()([x, attended])
    normalized = layers.RMSNormalization()(x)
    gate = layers.Activation("silu")(layers.Dense(32, use_bias=False)(normalized))
    up = layers.Dense(32, use_bias=False)(normalized)
    x = layers.Add()([x, layers.Dense(16, use_bias=False)(gate * up)])
    return keras.Model(inputs, layers.Dense(WORDS, use_bias=False)(layers.RMSNormalization()(x)))


def miniature_gpt() -> Any:
    """A causal Transformer with two outputs, of which one has no loss."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = TokenAndPosition(LENGTH, WORDS, 16)(inputs)
    x = TransformerBlock(16, 2, causal=True)(x)
    return keras.Model(inputs, [layers.Dense(WORDS, name="logits")(x), x])


def only_logits(random: np.random.Generator, examples: int) -> Data:
    """The targets by the name of the output."""
    x, y = next_tokens(random, examples)
    return x, [y, np.zeros((examples, LENGTH, 16), np.float32)]


@serializable  # type: ignore[untyped-decorator]
class TiedLanguageModel(keras.Model):  # type: ignore[misc]
    """The table of the embedding is the kernel of the output."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = layers.Embedding(WORDS, 16)
        self.hidden = layers.GRU(16, return_sequences=True)

    def call(self, inputs: Any) -> Any:
        """The logits."""
        x = self.hidden(self.embedding(inputs))
        return ops.matmul(x, ops.transpose(ops.cast(self.embedding.embeddings, x.dtype)))


def tied_language_model() -> Any:
    """The subclassed model, built by a call."""
    model = TiedLanguageModel()
    model(np.zeros((1, LENGTH), np.int32))
    return model


def reversible_embedding() -> Any:
    """Keras's layer for tied weights, used in both directions."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    embedding = layers.ReversibleEmbedding(WORDS, 16)
    x = layers.Conv1D(16, 3, padding="causal", activation="relu")(embedding(inputs))
    return keras.Model(inputs, embedding(x, reverse=True))


pattern = partial(pattern_of, "language models")
ARCHITECTURES = (
    pattern(
        grouped_query_attention,
        "RMS normalization, gated feed-forward network",
        next_tokens,
        loss=SPARSE,
    ),
    pattern(
        miniature_gpt,
        "causal Transformer, a second output without a loss",
        only_logits,
        deviations={"saved": NO_KEYWORDS},
        loss=[SPARSE, None],
    ),
    pattern(
        tied_language_model,
        "one table in two places",
        next_tokens,
        loss=SPARSE,
        deviations={"saved": NO_KEYWORDS},
    ),
    pattern(reversible_embedding, "ReversibleEmbedding", next_tokens, loss=SPARSE),
)
