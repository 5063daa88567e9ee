"""Language models: predict the next character at every position.

Sources: Hochreiter and Schmidhuber 1997, "Long short-term memory"; Vaswani et al. 2017,
arXiv:1706.03762; normalization before each part as in Radford et al. 2019 (GPT-2).
"""

from typing import Any

from ampcore.data.dataset import Signature
from ampcore.models.builders.from_description import build_networks
from ampcore.models.classification import Classification
from ampcore.models.registry import register
from ampspec.errors import InvalidModel
from ampspec.models.model import LstmLm, TransformerLm


@register("lstm_lm", Classification)
def lstm_lm(spec: LstmLm, signature: Signature) -> Any:
    """Embedding → LSTM for each of `layers` → logits (batch, T, vocabulary)."""
    _check_text(signature)
    return build_networks(spec, signature)


@register("transformer_lm", Classification)
def transformer_lm(spec: TransformerLm, signature: Signature) -> Any:
    """Embedding + learned positions → causal blocks → norm → logits (batch, T, vocabulary)."""
    _check_text(signature)
    return build_networks(spec, signature)


def _check_text(signature: Signature) -> None:
    shape, vocabulary = signature.input_shape, signature.vocabulary
    if vocabulary is None or len(shape) != 1 or vocabulary != signature.classes:
        raise InvalidModel(
            "model.kind",
            expected="text, windows [sequence] labelled with the next character, for this kind "
            "of model",
            received=f"{signature.input_dtype} examples of shape {list(shape)}",
        )
