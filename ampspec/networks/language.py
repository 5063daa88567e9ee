"""The language models: lstm_lm and transformer_lm.

Sources: Hochreiter and Schmidhuber 1997, "Long short-term memory"; Vaswani et al. 2017,
arXiv:1706.03762; normalization before each part as in Radford et al. 2019 (GPT-2).
"""

from typing import Final

from ampspec.models.model import LstmLm, TransformerLm
from ampspec.networks.description import (
    DataShape,
    NetworkBuilder,
    NetworkDescription,
    PositionNumbers,
)

DIM: Final = "/model/dim"


def lstm_lm(spec: LstmLm, data: DataShape) -> dict[str, NetworkDescription]:
    """Embedding → LSTM for each of `layers` → logits (T, vocabulary)."""
    builder = _token_network("lstm_lm", data, spec.dim)
    for index in range(1, spec.layers + 1):
        builder.add(
            "LSTM",
            f"lstm_{index}",
            units=spec.units,
            return_sequences=True,
            spec_fields={"inputs": DIM if index == 1 else None, "units": "/model/units"},
        )
    builder.add("Dense", "predictions", units=data.classes)
    return {"model": builder.network()}


def transformer_lm(spec: TransformerLm, data: DataShape) -> dict[str, NetworkDescription]:
    """Embedding + learned positions → causal blocks → norm → logits (T, vocabulary)."""
    builder = _token_network("transformer_lm", data, spec.dim)
    tokens = builder.output
    builder.add_layer(PositionNumbers(), "position_numbers", "tokens")
    builder.add("Embedding", "positions", input_dim=data.example[0], output_dim=spec.dim)
    builder.add("Add", "embedded", tokens, "positions")
    for index in range(1, spec.layers + 1):
        _add_block(builder, spec, f"block_{index}")
    builder.add("LayerNormalization", "norm")
    builder.add("Dense", "predictions", units=data.classes)
    return {"model": builder.network()}


def _token_network(name: str, data: DataShape, dim: int) -> NetworkBuilder:
    """Tokens (T,), int32, and their embeddings (T, dim); the vocabulary is the classes."""
    builder = NetworkBuilder(name, "tokens", data.example, "int32")
    builder.add("Embedding", "embedding", input_dim=data.classes, output_dim=dim)
    return builder


def _add_block(builder: NetworkBuilder, spec: TransformerLm, name: str) -> None:
    """Causal self-attention, then two dense layers; each is added to its input."""
    block_input = builder.output
    norm = builder.add("LayerNormalization", f"{name}_attention_norm")
    attention = builder.add(
        "MultiHeadAttention",
        f"{name}_attention",
        norm,
        norm,
        num_heads=spec.heads,
        key_dim=spec.dim // spec.heads,
        use_causal_mask=True,
        spec_fields={"size of a head": DIM, "sequence": "/data/sequence"},
    )
    block_input = builder.add("Add", f"{name}_attention_add", block_input, attention)
    builder.add("LayerNormalization", f"{name}_dense_norm")
    builder.add(
        "Dense",
        f"{name}_dense_1",
        units=4 * spec.dim,
        activation="gelu",
        spec_fields={"inputs": DIM},
    )
    out = builder.add("Dense", f"{name}_dense_2", units=spec.dim, spec_fields={"units": DIM})
    builder.add("Add", f"{name}_dense_add", block_input, out)
