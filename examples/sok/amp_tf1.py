# A sparse embedding model in mixed_float16, in the graph-and-session form of TensorFlow 1.15.
#
#     python examples/sok/amp_tf1.py
#     python -m ampcore launch --processes 2 examples/sok/amp_tf1.py
#
# The loop has the order of calls of the tutorial of NVIDIA's SparseOperationKit for TensorFlow
# 1.15 with Horovod: dense gradients are all-reduced after they were unscaled, those of the table
# stay on the rank that owns the rows, and the loss depends on both updates. Of TensorFlow it uses
# only what 1.15 had.
"""Train 10 slots of 5 keys with an embedding table that is split over the ranks."""

import argparse
import json

import numpy as np
import tensorflow.compat.v1 as tf

from ampcore import compat

SLOTS, KEYS = 10, 5
VOCABULARY, KEYS_OF_SLOT = 1024, 102
DIMENSION = 8
GLOBAL_BATCH = 1024


@tf.custom_gradient
def exchange(found):
    """Add up what each rank has found for the keys of all; keep the examples of this rank."""
    own = int(found.shape[0]) // compat.size()
    summed = compat.all_reduce(found, op="sum")

    def gradient(upstream):
        # The loss is a mean over the examples of one rank: divide, for the mean over all.
        return compat.all_gather(upstream) / compat.size()

    return summed[compat.rank() * own : (compat.rank() + 1) * own], gradient


def look_up(table, keys):
    """The embeddings of keys in a table whose row r belongs to rank r % size."""
    keys = compat.all_gather(keys)
    is_own = tf.equal(keys % compat.size(), compat.rank())
    rows = tf.gather(table, tf.where(is_own, keys // compat.size(), tf.zeros_like(keys)))
    return exchange(rows * tf.cast(is_own, tf.float32)[..., tf.newaxis])


def make_variables():
    """The rows of this rank, and the dense weights, which are the same on all ranks."""
    rng = np.random.default_rng(2)
    rows = rng.normal(0, 0.05, (VOCABULARY, DIMENSION)).astype("float32")
    limit = np.sqrt(6 / (SLOTS * KEYS * DIMENSION + 1))
    weights = rng.uniform(-limit, limit, (SLOTS * KEYS * DIMENSION, 1)).astype("float32")
    table = tf.get_variable("embeddings", initializer=rows[compat.rank() :: compat.size()])
    kernel = tf.get_variable("kernel", initializer=weights)
    return table, kernel, tf.get_variable("bias", initializer=tf.zeros([1]))


def losses_of(variables, keys, labels, dtype):
    """The model and its losses: look up in float32, multiply in float16 or another dtype."""
    table, kernel, bias = variables
    flat = tf.reshape(look_up(table, keys), [-1, SLOTS * KEYS * DIMENSION])
    product = tf.matmul(tf.cast(flat, dtype), tf.cast(kernel, dtype))
    logits = tf.cast(product + tf.cast(bias, dtype), tf.float32)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def batches(steps, seed=7):
    """The examples of this rank: keys (examples, slots, keys) and labels (examples, 1)."""
    rng = np.random.default_rng(seed)
    own = GLOBAL_BATCH // compat.size()
    mine = slice(compat.rank() * own, (compat.rank() + 1) * own)
    first_key = KEYS_OF_SLOT * np.arange(SLOTS)[:, None]
    for _ in range(steps):
        keys = first_key + rng.integers(0, KEYS_OF_SLOT, (GLOBAL_BATCH, SLOTS, KEYS))
        labels = rng.integers(0, 2, (GLOBAL_BATCH, 1))
        yield keys[mine], labels[mine]


def save(path, gathered, kernel, bias):
    """Write the weights to an npz file: row r of the table is row r // size of rank r % size."""
    table = np.stack(np.split(gathered, compat.size()), axis=1).reshape(VOCABULARY, DIMENSION)
    np.savez(path, table=table, kernel=kernel, bias=bias)


def train(steps, dtype="float16", path=None):
    """Train in a graph of its own; returns what rank 0 prints."""
    with tf.Graph().as_default():
        compat.init()
        variables = make_variables()
        own = GLOBAL_BATCH // compat.size()
        keys = tf.placeholder(tf.int32, [own, SLOTS, KEYS])
        labels = tf.placeholder(tf.float32, [own, 1])

        optimizer = compat.LossScaleOptimizer(
            tf.train.AdamOptimizer(0.1), dynamic=False, initial_scale=1024
        )
        loss = tf.reduce_mean(losses_of(variables, keys, labels, dtype))
        scaled_loss = optimizer.get_scaled_loss(loss)
        tables, others = compat.split_embedding_variables(tf.trainable_variables())
        grads = tf.gradients(scaled_loss, tables + others)
        table_grads = optimizer.get_unscaled_gradients(grads[: len(tables)])
        other_grads = optimizer.get_unscaled_gradients(grads[len(tables) :])
        other_grads = [compat.all_reduce(grad) for grad in other_grads]
        table_update = optimizer.apply_gradients(zip(table_grads, tables, strict=True))
        other_update = optimizer.apply_gradients(zip(other_grads, others, strict=True))
        with tf.control_dependencies([table_update, other_update]):
            total_loss = compat.all_reduce(tf.identity(loss))
        table, kernel, bias = variables
        weights = [compat.all_gather(table), kernel, bias]

        with compat.session() as session:
            session.run(tf.global_variables_initializer())
            values = [
                float(session.run(total_loss, {keys: some_keys, labels: some_labels}))
                for some_keys, some_labels in batches(steps)
            ]
            skipped, scale = session.run([optimizer.skipped_steps, optimizer.loss_scale])
            last = session.run(weights)  # on all ranks, because they send each other their rows
    if path is not None and compat.rank() == 0:
        save(path, *last)
    return {
        "ranks": compat.size(),
        "losses": values,
        "skipped": int(skipped),
        "loss_scale": float(scale),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dtype", default="float16", help="of products, such as float32")
    parser.add_argument("--save", metavar="FILE", help="write the weights to an npz file")
    given = parser.parse_args()
    if GLOBAL_BATCH % compat.size():
        parser.error(f"{compat.size()} ranks cannot divide a batch of {GLOBAL_BATCH} evenly")
    result = train(given.steps, given.dtype, given.save)
    if compat.rank() == 0:
        print(json.dumps(result))
