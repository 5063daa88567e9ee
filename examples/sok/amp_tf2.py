# A sparse embedding model in mixed_float16, in a custom loop of TF 2, on one rank or on several.
#
#     python examples/sok/amp_tf2.py
#     python -m ampcore launch --processes 2 examples/sok/amp_tf2.py
#
# The loop has the order of calls of the mixed-precision tutorial of NVIDIA's SparseOperationKit:
# the embedding table is split over the ranks by rows, and there are two groups of gradients. The
# batch is split over the ranks, so that any number of ranks that divides it computes the same
# losses.
"""Train 10 slots of 5 keys with an embedding table that is split over the ranks."""

import argparse
import json

import keras
import numpy as np
import tensorflow as tf

from ampcore import compat, distributed
from ampcore.distributed.lookup import sharded_lookup
from ampcore.distributed.row_shards import RowShard

SLOTS, KEYS = 10, 5
VOCABULARY, KEYS_OF_SLOT = 1024, 102
DIMENSION = 8
GLOBAL_BATCH = 1024


@tf.custom_gradient
def mean_over_ranks(vectors):
    """The same vectors; the gradient of the mean of all ranks' losses instead of their sum."""
    return tf.identity(vectors), lambda upstream: upstream / compat.size()


class ShardedEmbedding(keras.layers.Layer):
    """A table whose rows are spread over the ranks; all ranks look keys up together."""

    def __init__(self, communicator, table):
        super().__init__(dtype="float32")
        self.communicator = communicator
        self.shard = RowShard(len(table), communicator.rank, communicator.size)
        rows = self.shard.own_rows(table)
        self.table = self.add_weight(
            shape=rows.shape, initializer=lambda shape, dtype: rows, name="embeddings"
        )

    def call(self, keys):
        """The embeddings of the keys of this rank's examples, in float32."""
        vectors = sharded_lookup(self.communicator, self.shard, self.table.value, keys)
        return mean_over_ranks(vectors)


class Network(keras.Model):
    """The table, and one dense layer that computes in float16, or in another dtype."""

    def __init__(self, communicator, table, dtype):
        super().__init__()
        self.embedding = ShardedEmbedding(communicator, table)
        self.flatten = keras.layers.Flatten()
        self.dense = keras.layers.Dense(
            1, dtype="float32" if dtype == "float32" else f"mixed_{dtype}"
        )

    def call(self, keys):
        """The logits, in the dtype of the dense layer."""
        return self.dense(self.flatten(self.embedding(keys)))


def batches(steps, seed=7):
    """The examples of this rank: keys (examples, slots, keys) and labels (examples, 1)."""
    rng = np.random.default_rng(seed)
    own = GLOBAL_BATCH // compat.size()
    mine = slice(compat.rank() * own, (compat.rank() + 1) * own)
    first_key = KEYS_OF_SLOT * np.arange(SLOTS)[:, None]
    for _ in range(steps):
        keys = first_key + rng.integers(0, KEYS_OF_SLOT, (GLOBAL_BATCH, SLOTS, KEYS))
        labels = rng.integers(0, 2, (GLOBAL_BATCH, 1))
        yield tf.constant(keys[mine], tf.int32), tf.constant(labels[mine], tf.float32)


def make_model(communicator, dtype):
    """The model, with the same first weights on all ranks."""
    keras.utils.set_random_seed(1)
    table = np.random.default_rng(2).normal(0, 0.05, (VOCABULARY, DIMENSION)).astype("float32")
    return Network(communicator, table, dtype)


def whole_table(rows):
    """The table, from the rows of all ranks: row r is row r // size of rank r % size."""
    of_ranks = np.split(compat.all_gather(rows).numpy(), compat.size())
    return np.stack(of_ranks, axis=1).reshape(VOCABULARY, DIMENSION)


def save(path, model):
    """Write the weights to an npz file; all ranks call it, rank 0 writes."""
    table = whole_table(model.embedding.table.value)
    if compat.rank() == 0:
        kernel, bias = model.dense.get_weights()
        np.savez(path, table=table, kernel=kernel, bias=bias)


def train(steps, dtype="float16", initial_scale=2.0**15, path=None):
    """Train; returns what rank 0 prints."""
    communicator = distributed.connect_from_environment()  # with several ranks, before any tensor
    compat.init(communicator)
    model = make_model(communicator, dtype)
    optimizer = compat.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=initial_scale)

    @tf.function
    def step(keys, labels):
        with tf.GradientTape() as tape:
            logits = tf.cast(model(keys), tf.float32)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
            scaled_loss = optimizer.get_scaled_loss(loss)
        tables, others = compat.split_embedding_variables(model.trainable_variables)
        table_grads, other_grads = tape.gradient(
            scaled_loss, [[each.value for each in tables], [each.value for each in others]]
        )
        table_grads = optimizer.get_unscaled_gradients(table_grads)
        other_grads = optimizer.get_unscaled_gradients(other_grads)
        # Every rank owns its rows; the other variables are the same on all ranks.
        optimizer.apply_gradients(
            zip(table_grads, tables, strict=True), experimental_aggregate_gradients=False
        )
        optimizer.apply_gradients(zip(other_grads, others, strict=True))
        return compat.all_reduce(loss)

    losses = [float(step(keys, labels)) for keys, labels in batches(steps)]
    if path is not None:
        save(path, model)
    communicator.close()  # only if all went well: the others end when this rank is lost
    return {
        "ranks": compat.size(),
        "losses": losses,
        "iterations": int(optimizer.iterations),
        "skipped": int(optimizer.skipped_steps),
        "loss_scale": float(optimizer.loss_scale),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", default="float16", help="of products, such as float32")
    parser.add_argument("--initial-scale", type=float, default=2.0**15, help="of the loss")
    parser.add_argument("--save", metavar="FILE", help="write the weights to an npz file")
    given = parser.parse_args()
    if GLOBAL_BATCH % compat.size():
        parser.error(f"{compat.size()} ranks cannot divide a batch of {GLOBAL_BATCH} evenly")
    result = train(given.steps, given.dtype, given.initial_scale, given.save)
    if compat.rank() == 0:
        print(json.dumps(result))
