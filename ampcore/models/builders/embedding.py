"""The sparse embedding model of NVIDIA's SparseOperationKit, and its task.

Source: https://github.com/NVIDIA-Merlin/HugeCTR/tree/main/sparse_operation_kit
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from ampcore.data.dataset import Signature
from ampcore.data.examples import Batch
from ampcore.distributed.communicator import Communicator
from ampcore.distributed.lookup import sharded_lookup
from ampcore.distributed.row_shards import RowShard
from ampcore.models.builders.from_description import build_networks
from ampcore.models.builders.table_rows import assign_initial_rows
from ampcore.models.classification import binary_cross_entropy
from ampcore.models.registry import DtypePolicies, register
from ampcore.models.stateless_call import StateUpdates, call_stateless
from ampcore.models.task import Network, NonTrainable, Task, Tensor, Weights
from ampspec.errors import InvalidModel
from ampspec.models.model import EmbeddingModel
from ampspec.networks.embedding import TABLE_LAYER


class ClickPrediction(Task):
    """One network from keys (n, slots, nnz) to a logit (n, 1) of the label being 1.

    The table's rows are gathered directly from its variable. Keras's layer would read the whole
    table first, which TensorFlow copies when rows of it are updated in place.

    Args:
        networks: The one network; its table holds the rows of `shard`.
        shard: The rows of this rank; None: all of them.
        communicator: The ranks that have the others; None: this one has all.
    """

    metrics = ("loss", "accuracy")

    def __init__(
        self,
        networks: Sequence[Network],
        shard: RowShard | None = None,
        communicator: Communicator | None = None,
    ) -> None:
        super().__init__(networks)
        self._shard, self._communicator = shard, communicator
        model = self.networks[0].model
        table = model.get_layer(TABLE_LAYER)
        self._table = _index_of(table.embeddings, model.trainable_variables)
        self._after_table = keras.Model(table.output, model.output, name="after_the_table")
        self._dense = [
            _index_of(variable, model.trainable_variables)
            for variable in self._after_table.trainable_variables
        ]
        _, self._first_after_table, *_ = self._after_table.layers

    def losses(
        self, weights: Weights, non_trainable: NonTrainable, batch: Batch, seed: Tensor
    ) -> tuple[list[Tensor], list[StateUpdates]]:
        """The mean binary cross-entropy of the batch; its gradient by the table is sparse."""
        logits, updates = self._logits(weights, non_trainable, batch.x, training=True)
        return [tf.reduce_mean(binary_cross_entropy(logits, batch.y))], [updates]

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

    def shards(self) -> Mapping[int, RowShard]:
        """The table, if other ranks own some of its rows."""
        if self._shard is None:
            return {}
        return {id(self.table): self._shard}

    def without_communication(self, rows_of: Task | None = None) -> Task:
        """The task with fetched rows as its table."""
        if self._shard is None:
            return self
        return FetchedRows(self, rows_of if isinstance(rows_of, FetchedRows) else None)

    @property
    def table(self) -> Any:
        """The variable of the table."""
        return self.networks[0].model.trainable_variables[self._table]

    def rows(self, keys: Tensor) -> Tensor:
        """The rows of keys, in the dtype of the table; all ranks call it together."""
        return self._look_up(self.table.value, keys, self.table.dtype)

    def _look_up(self, table: Any, keys: Tensor, dtype: Any) -> Tensor:
        if self._shard is None or self._communicator is None:
            return tf.gather(table, keys)
        return sharded_lookup(self._communicator, self._shard, table, keys, dtype)

    def _logits(
        self, weights: Weights, non_trainable: NonTrainable, keys: Tensor, *, training: bool
    ) -> tuple[Tensor, StateUpdates]:
        dense = [weights[0][place] for place in self._dense]
        with self.networks[0].dtypes.applied():
            dtype = self._first_after_table.compute_dtype
            rows = self._look_up(weights[0][self._table], keys, dtype)
            logits, updates, _ = call_stateless(
                self._after_table, dense, non_trainable[0], rows, training=training
            )
        return logits[:, 0], updates


class FetchedRows(ClickPrediction):
    """The same network on one rank alone, for batches whose rows it has fetched.

    Args:
        task: The task whose ranks own the rows.
        like: Another one, with which it shares the rows; None: it has its own.
    """

    def __init__(self, task: ClickPrediction, like: "FetchedRows | None" = None) -> None:
        super().__init__(task.networks)
        self._source = task
        if like is not None:
            self._keys: Any = like._keys
            self._rows: Any = like._rows
            return
        dim, dtype = task.table.shape[1], task.table.dtype
        self._keys = tf.Variable([0], trainable=False, shape=[None])
        # Trainable, so that gradients by the rows are recorded.
        self._rows = tf.Variable(tf.zeros([1, dim], dtype), shape=[None, dim])

    def fetch_rows(self, batch: Batch) -> None:
        """Fetch the rows that a batch names."""
        keys, _ = tf.unique(tf.sort(tf.reshape(batch.x, [-1])))
        self._keys.assign(keys)
        self._rows.assign(self._source.rows(keys))

    def weights(self) -> Weights:
        """The variables themselves, with the fetched rows as the table."""
        [weights] = super().weights()
        rows = self._rows
        if self.networks[0].in_float32 and rows.dtype != tf.float32:
            rows = tf.cast(rows, tf.float32)
        return [[*weights[: self._table], rows, *weights[self._table + 1 :]]]

    def _look_up(self, table: Any, keys: Tensor, dtype: Any) -> Tensor:
        places = tf.searchsorted(self._keys, tf.reshape(keys, [-1]))
        return tf.gather(table, tf.reshape(places, tf.shape(keys)))


def sharded(
    spec: EmbeddingModel, signature: Signature, policies: DtypePolicies, communicator: Communicator
) -> ClickPrediction:
    """The task of `embedding` with a table of which this rank has its own rows.

    The whole table has the rows that one process would have given it.
    """
    _check_keys(spec, signature)
    shard = RowShard(spec.vocabulary, communicator.rank, communicator.size)
    rank_spec = spec.model_copy(update={"vocabulary": shard.local_rows})
    [model] = build_networks(rank_spec, signature).values()
    layer = model.get_layer(TABLE_LAYER)
    assign_initial_rows(layer.embeddings, shard, layer.embeddings_initializer)
    return ClickPrediction([Network("model", policies.apply(model))], shard, communicator)


@register("embedding", ClickPrediction)
def embedding(spec: EmbeddingModel, signature: Signature) -> Any:
    """One table for all slots → flatten → Dense for each of `hidden` → one logit."""
    _check_keys(spec, signature)
    return build_networks(spec, signature)


def _check_keys(spec: EmbeddingModel, signature: Signature) -> None:
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
    return next(place for place, candidate in enumerate(variables) if candidate is variable)
