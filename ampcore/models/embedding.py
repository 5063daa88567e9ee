"""The sparse embedding model of NVIDIA's SparseOperationKit, and its task.

Source: https://github.com/NVIDIA-Merlin/HugeCTR/tree/main/sparse_operation_kit
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from ampcore.data.dataset import Batch, Signature
from ampcore.errors import InvalidModel
from ampcore.models.classification import binary_cross_entropy
from ampcore.models.classifier import dense_stack
from ampcore.models.registry import register
from ampcore.models.task import Held, Network, Task, Tensor, Weights, call
from ampcore.spec.model import Embedding

TABLE = "embedding"


class Clicks(Task):
    """One network from keys (n, slots, nnz) to a logit (n, 1) of the label being 1.

    The table's rows are gathered straight from its variable. Keras's layer would read the whole
    table first, which TensorFlow copies once rows of it are updated in place.
    """

    metrics = ("loss", "accuracy")

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__(networks)
        model = self.networks[0].model
        table = model.get_layer(TABLE)
        self._table = _place(table.embeddings, model.trainable_variables)
        self._rest = keras.Model(table.output, model.output, name="after_the_table")
        self._dense = [
            _place(variable, model.trainable_variables)
            for variable in self._rest.trainable_variables
        ]

    def losses(
        self, weights: Weights, held: Held, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], Held]:
        """The mean binary cross-entropy of the batch; its gradient by the table is sparse."""
        logits, after = self._logits(weights, held, batch.x, training=True)
        return [tf.reduce_mean(binary_cross_entropy(logits, batch.y))], [after]

    def measure(self, weights: Weights, held: Held, batch: Batch) -> dict[str, Tensor]:
        """Each example's loss, and whether the likelier label is the right one."""
        logits, _ = self._logits(weights, held, batch.x, training=False)
        right = tf.equal(logits > 0, batch.y > 0)
        return {
            "loss": binary_cross_entropy(logits, batch.y),
            "accuracy": tf.cast(right, tf.float32),
        }

    def _logits(
        self, weights: Weights, held: Held, keys: Tensor, *, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        rows = tf.gather(weights[0][self._table], keys)
        dense = [weights[0][place] for place in self._dense]
        logits, after = call(self._rest, dense, held[0], rows, training=training)
        return logits[:, 0], after


@register("embedding", Clicks)
def embedding(spec: Embedding, signature: Signature) -> Any:
    """One table for all slots → flatten → Dense for each of `hidden` → one logit."""
    _check_keys(spec, signature)
    keys = keras.Input(signature.input_shape, dtype="int32", name="keys")
    x = layers.Embedding(spec.vocabulary, spec.dim, name=TABLE)(keys)
    x = dense_stack(layers.Flatten(name="flatten")(x), spec.hidden, "relu", 0.0)
    return keras.Model(keys, layers.Dense(1, name="predictions")(x), name="embedding")


def _check_keys(spec: Embedding, signature: Signature) -> None:
    if signature.vocabulary is None or signature.classes != 2:
        raise InvalidModel(
            "model.kind",
            expected="keys [slots, nnz] with labels 0 and 1 for this kind",
            received=f"{signature.input_dtype} examples of shape {list(signature.input_shape)}",
        )
    if signature.input_shape != (spec.slots, spec.nnz):
        raise InvalidModel(
            "model.slots",
            expected=f"keys of shape {[spec.slots, spec.nnz]}, slots and nnz",
            received=f"examples of shape {list(signature.input_shape)}",
        )
    if signature.vocabulary > spec.vocabulary:
        raise InvalidModel(
            "model.vocabulary",
            expected=f"at least {signature.vocabulary}, the vocabulary of the data",
            received=str(spec.vocabulary),
        )


def _place(variable: Any, variables: Sequence[Any]) -> int:
    return next(place for place, other in enumerate(variables) if other is variable)
