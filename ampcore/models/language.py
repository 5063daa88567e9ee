"""Language models: from the characters so far to the next one, at every position at once.

Sources: Hochreiter and Schmidhuber 1997, "Long short-term memory"; Vaswani et al. 2017,
arXiv:1706.03762; normalization before each part as in Radford et al. 2019 (GPT-2).
"""

from typing import Any

import keras
from keras import layers, ops

from ampcore.data.dataset import Signature
from ampcore.errors import InvalidModel
from ampcore.models.classification import Classification
from ampcore.models.classifier import classifier
from ampcore.models.registry import register
from ampcore.spec.model import LstmLm, TransformerLm


@register("lstm_lm", Classification)
def lstm_lm(spec: LstmLm, signature: Signature) -> Any:
    """Embedding → LSTM for each of `layers` → logits (batch, T, vocabulary)."""
    tokens, x = _tokens(signature, spec.dim)
    for index in range(1, spec.layers + 1):
        x = layers.LSTM(spec.units, return_sequences=True, name=f"lstm_{index}")(x)
    return classifier(tokens, x, signature.classes, "lstm_lm")


@register("transformer_lm", Classification)
def transformer_lm(spec: TransformerLm, signature: Signature) -> Any:
    """Embedding + learned positions → causal blocks → norm → logits (batch, T, vocabulary)."""
    tokens, x = _tokens(signature, spec.dim)
    x = layers.Add(name="embedded")([x, _positions(tokens, spec.dim)])
    for index in range(1, spec.layers + 1):
        x = _block(x, spec, f"block_{index}")
    x = layers.LayerNormalization(name="norm")(x)
    return classifier(tokens, x, signature.classes, "transformer_lm")


def _tokens(signature: Signature, dim: int) -> tuple[Any, Any]:
    """The model's input (batch, T), int32, and its embeddings (batch, T, dim)."""
    shape, vocabulary = signature.input_shape, signature.vocabulary
    if vocabulary is None or len(shape) != 1 or vocabulary != signature.classes:
        raise InvalidModel(
            "model.kind",
            expected="text, [sequence] characters with the next one as label, for this kind",
            received=f"{signature.input_dtype} examples of shape {list(shape)}",
        )
    tokens = keras.Input(shape, dtype="int32", name="tokens")
    return tokens, layers.Embedding(vocabulary, dim, name="embedding")(tokens)


def _positions(tokens: Any, dim: int) -> Any:
    """A learned vector for each position, (1, T, dim)."""
    # Counted from the tokens: a functional model has no layer for a plain constant.
    places = ops.cumsum(ops.ones_like(ops.take(tokens, [0], axis=0)), axis=1) - 1
    return layers.Embedding(tokens.shape[1], dim, name="positions")(places)


def _block(x: Any, spec: TransformerLm, name: str) -> Any:
    """Attention to what came before, then two dense layers; each adds to what it was given."""
    normed = layers.LayerNormalization(name=f"{name}_attention_norm")(x)
    attention = layers.MultiHeadAttention(
        spec.heads, spec.dim // spec.heads, name=f"{name}_attention"
    )
    x = layers.Add(name=f"{name}_attention_add")(
        [x, attention(normed, normed, use_causal_mask=True)]
    )
    normed = layers.LayerNormalization(name=f"{name}_dense_norm")(x)
    hidden = layers.Dense(4 * spec.dim, activation="gelu", name=f"{name}_dense_1")(normed)
    out = layers.Dense(spec.dim, name=f"{name}_dense_2")(hidden)
    return layers.Add(name=f"{name}_dense_add")([x, out])
