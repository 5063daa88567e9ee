"""The sparse embedding model of NVIDIA's SparseOperationKit, and its task.

Source: https://github.com/NVIDIA-Merlin/HugeCTR/tree/main/sparse_operation_kit
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ampcore.architectures.embedding import TABLE_LAYER
from ampcore.data.dataset import Signature
from ampcore.data.examples import Batch
from ampcore.errors import InvalidModel
from ampcore.models.building_blocks import build_networks
from ampcore.models.classification import binary_cross_entropy
from ampcore.models.registry import register
from ampcore.models.task import Network, NonTrainable, Task, Tensor, Weights, call_stateless
from ampcore.spec.model import Embedding


class ClickPrediction(Task):
    """One network from keys (n, slots, nnz) to a logit (n, 1) of the label being 1.

    The table's rows are gathered directly from its variable. Keras's layer would read the whole
    table first, which TensorFlow copies when rows of it are updated in place.
    """

    metrics = ("loss", "accuracy")

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__(networks)
        model = self.networks[0].model
        table = model.get_layer(TABLE_LAYER)
        self._table = _index_of(table.embeddings, model.trainable_variables)
        self._after_table = keras.Model(table.output, model.output, name="after_the_table")
        self._dense = [
            _index_of(variable, model.trainable_variables)
            for variable in self._after_table.trainable_variables
        ]

    def losses(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], NonTrainable]:
        """The mean binary cross-entropy of the batch; its gradient by the table is sparse."""
        logits, after = self._logits(weights, non_trainable, batch.x, training=True)
        return [tf.reduce_mean(binary_cross_entropy(logits, batch.y))], [after]

    def measure(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch
    ) -> dict[str, Tensor]:
        """Each example's loss, and whether the predicted label is correct."""
        logits, _ = self._logits(weights, non_trainable, batch.x, training=False)
        right = tf.equal(logits > 0, batch.y > 0)
        return {
            "loss": binary_cross_entropy(logits, batch.y),
            "accuracy": tf.cast(right, tf.float32),
        }

    def _logits(
        self, weights: Weights, non_trainable: NonTrainable, keys: Tensor, *, training: bool
    ) -> tuple[Tensor, list[Tensor]]:
        rows = tf.gather(weights[0][self._table], keys)
        dense = [weights[0][place] for place in self._dense]
        logits, after = call_stateless(
            self._after_table, dense, non_trainable[0], rows, training=training
        )
        return logits[:, 0], after


@register("embedding", ClickPrediction)
def embedding(spec: Embedding, signature: Signature) -> Any:
    """One table for all slots → flatten → Dense for each of `hidden` → one logit."""
    _check_keys(spec, signature)
    return build_networks(spec, signature)


def _check_keys(spec: Embedding, signature: Signature) -> None:
    if signature.vocabulary is None or signature.classes != 2:
        raise InvalidModel(
            "model.kind",
            expected="keys [slots, nnz] with labels 0 and 1, for this kind of model",
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


def _index_of(variable: Any, variables: Sequence[Any]) -> int:
    return next(place for place, other in enumerate(variables) if other is variable)
