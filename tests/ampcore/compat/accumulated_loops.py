"""The loops of examples/sok in one process that takes each batch in two halves, as two ranks do.

    python -m tests.ampcore.compat.accumulated_loops amp_tf1|amp_tf2 STEPS WEIGHTS

A rank rounds the dense gradients of its half of the batch to float16. A process that computes them
for the whole batch rounds another sum, and Adam makes the difference grow. So this one adds up the
unscaled gradients of the halves, which are rounded as on the ranks. It prints and saves what the
examples do.
"""

import json
import sys
from typing import Any

import keras
import tensorflow as tf

from ampcore import compat, distributed
from examples.sok import amp_tf1, amp_tf2

v1 = tf.compat.v1
HALVES = 2
LARGE_SCALE = 2.0**27
"""Of the loop of TF 2, whose scale is dynamic: its first steps overflow in float16."""


def mean_of(grads: list[Any]) -> Any:
    """The mean of the gradients of one variable; sparse ones stay sparse."""
    if not isinstance(grads[0], tf.IndexedSlices):
        return tf.add_n(grads) / len(grads)
    values = tf.concat([grad.values for grad in grads], axis=0)
    indices = tf.concat([grad.indices for grad in grads], axis=0)
    return tf.IndexedSlices(values / len(grads), indices, grads[0].dense_shape)


def apply(optimizer: Any, parts: list[list[Any]], variables: list[Any]) -> list[Any]:
    """Both calls of `apply_gradients`: of the table, which is the first variable, and the rest."""
    pairs = list(zip(map(mean_of, zip(*parts, strict=True)), variables, strict=True))
    return [optimizer.apply_gradients(group) for group in (pairs[:1], pairs[1:])]


def train_tf2(steps: int, path: str, dtype: str) -> dict[str, Any]:
    communicator = distributed.connect_from_environment()
    compat.init(communicator)
    model = amp_tf2.make_model(communicator, dtype)
    inner = keras.optimizers.Adam(0.1)
    optimizer = compat.LossScaleOptimizer(inner, initial_scale=LARGE_SCALE)

    @tf.function
    def step(keys: Any, labels: Any) -> Any:
        parts, losses = [], []
        for some_keys, some_labels in zip(
            tf.split(keys, HALVES), tf.split(labels, HALVES), strict=True
        ):
            with tf.GradientTape() as tape:
                logits = tf.cast(model(some_keys), tf.float32)
                loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(some_labels, logits))
                scaled_loss = optimizer.get_scaled_loss(loss)
            variables = model.trainable_variables
            grads = tape.gradient(scaled_loss, [each.value for each in variables])
            parts.append(optimizer.get_unscaled_gradients(grads))
            losses.append(loss)
        apply(optimizer, parts, variables)
        return tf.reduce_mean(losses)

    losses = [float(step(keys, labels)) for keys, labels in amp_tf2.batches(steps)]
    amp_tf2.save(path, model)
    return {
        "losses": losses,
        "skipped": int(optimizer.skipped_steps),
        "loss_scale": float(optimizer.loss_scale),
    }


def train_tf1(steps: int, path: str, dtype: str) -> dict[str, Any]:
    with tf.Graph().as_default():
        compat.init()
        variables = amp_tf1.make_variables()
        keys = v1.placeholder(tf.int32, [amp_tf1.GLOBAL_BATCH, amp_tf1.SLOTS, amp_tf1.KEYS])
        labels = v1.placeholder(tf.float32, [amp_tf1.GLOBAL_BATCH, 1])
        optimizer = compat.LossScaleOptimizer(
            v1.train.AdamOptimizer(0.1), dynamic=False, initial_scale=1024
        )
        parts, losses = [], []
        for some_keys, some_labels in zip(
            tf.split(keys, HALVES), tf.split(labels, HALVES), strict=True
        ):
            loss = tf.reduce_mean(amp_tf1.losses_of(variables, some_keys, some_labels, dtype))
            grads = tf.gradients(optimizer.get_scaled_loss(loss), variables)
            parts.append(optimizer.get_unscaled_gradients(grads))
            losses.append(loss)
        with tf.control_dependencies(apply(optimizer, parts, list(variables))):
            total_loss = tf.reduce_mean(losses)
        with compat.session() as session:
            session.run(v1.global_variables_initializer())
            values = [
                float(session.run(total_loss, {keys: some_keys, labels: some_labels}))
                for some_keys, some_labels in amp_tf1.batches(steps)
            ]
            skipped, scale = session.run([optimizer.skipped_steps, optimizer.loss_scale])
            amp_tf1.save(path, *session.run(variables))
    return {"losses": values, "skipped": int(skipped), "loss_scale": float(scale)}


if __name__ == "__main__":
    train = {"amp_tf1": train_tf1, "amp_tf2": train_tf2}[sys.argv[1]]
    print(json.dumps(train(int(sys.argv[2]), sys.argv[3], sys.argv[4])))
