"""The networks of `ampcore.models` that take keys of a vocabulary: embedding, and the languages."""

from ampcore.preflight.data import Shapes
from ampcore.preflight.layer import Table
from ampcore.preflight.sketch import Sketch
from ampcore.spec.model import Embedding, LstmLm, TransformerLm

DIM = "/model/dim"


def embedding(spec: Embedding, data: Shapes) -> tuple[Table, ...]:
    """One table for all slots → flatten → Dense for each of `hidden` → one logit."""
    sketch = Sketch("model", data.example)
    sketch.embedding("embedding", spec.vocabulary, spec.dim)
    sketch.flatten("flatten")
    for index, units in enumerate(spec.hidden):
        inputs = DIM if index == 0 else None
        sketch.dense(f"dense_{index + 1}", units, f"/model/hidden/{index}", inputs=inputs)
    sketch.dense("predictions", 1)
    return (sketch.table(),)


def lstm_lm(spec: LstmLm, data: Shapes) -> tuple[Table, ...]:
    """Embedding → LSTM for each of `layers` → logits (T, vocabulary)."""
    sketch = Sketch("model", data.example)
    sketch.embedding("embedding", data.classes, spec.dim)
    for index in range(1, spec.layers + 1):
        inputs = DIM if index == 1 else None
        sketch.lstm(f"lstm_{index}", spec.units, "/model/units", inputs=inputs)
    sketch.dense("predictions", data.classes)
    return (sketch.table(),)


def transformer_lm(spec: TransformerLm, data: Shapes) -> tuple[Table, ...]:
    """Embedding + learned positions → causal blocks → norm → logits (T, vocabulary)."""
    sketch = Sketch("model", data.example)
    sketch.embedding("embedding", data.classes, spec.dim)
    sketch.shape = data.example  # the positions begin with the tokens, too
    sketch.embedding("positions", data.example[0], spec.dim, shared=True)
    sketch.add("embedded", "Add")
    for index in range(1, spec.layers + 1):
        _block(sketch, spec, f"block_{index}")
    sketch.layer_norm("norm")
    sketch.dense("predictions", data.classes)
    return (sketch.table(),)


def _block(sketch: Sketch, spec: TransformerLm, name: str) -> None:
    sketch.layer_norm(f"{name}_attention_norm")
    sketch.attention(f"{name}_attention", spec.heads, DIM)
    sketch.add(f"{name}_attention_add", "Add")
    sketch.layer_norm(f"{name}_dense_norm")
    sketch.dense(f"{name}_dense_1", 4 * spec.dim, inputs=DIM)
    sketch.dense(f"{name}_dense_2", spec.dim, DIM)
    sketch.add(f"{name}_dense_add", "Add")
