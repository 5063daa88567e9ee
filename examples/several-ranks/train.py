"""An own training loop on several ranks: `python -m ampcore launch -n 2 train.py`.

Each rank trains on its part of every batch. An overflow on one of them skips the step on all.
"""

import json

import keras
import numpy as np
import tensorflow as tf

from ampcore import distributed
from ampcore.precision import DynamicLossScale, apply_if_finite

STEPS, BATCH = 40, 32

# Before the first tensor: TensorFlow could not use it afterwards.
communicator = distributed.connect_from_environment()

keras.utils.set_random_seed(7)  # the same initial weights on all ranks
keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential(
    [
        keras.Input((16,)),
        keras.layers.Dense(32, "relu"),
        keras.layers.Dense(4, dtype="float32"),
    ]
)
optimizer = keras.optimizers.Adam(0.01)
optimizer.build(model.trainable_variables)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
loss_scale = DynamicLossScale(initial=2.0**24, growth_interval=10)

random = np.random.default_rng(1)
x = random.normal(size=(STEPS * BATCH, 16)).astype("float32")
y = np.argmax(x[:, :4], axis=1)
# The rows of this rank: of 0, 1, 2, 3, … on two ranks 0, 2, … or 1, 3, …
data = tf.data.Dataset.from_tensor_slices((x, y)).shard(communicator.size, communicator.rank)
data = data.batch(BATCH // communicator.size, drop_remainder=True)


@tf.function
def train_step(state, features, labels):
    """One step of all ranks together; returns the state of the loss scale, and what happened."""
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(features, training=True))
        scaled = loss_scale.scale(state, loss)
    gradients = loss_scale.unscale(state, tape.gradient(scaled, model.trainable_variables))
    # Before the finite check, so that all ranks decide the same.
    loss, *gradients = communicator.all_reduce([loss, *gradients])
    groups = [(optimizer, gradients, model.trainable_variables)]
    state, applied = apply_if_finite(loss_scale, state, groups)
    return state, loss, applied


state, losses, skipped = loss_scale.init(), [], 0
for features, labels in data:
    state, loss, applied = train_step(state, features, labels)
    losses.append(float(loss))
    skipped += int(not applied)

summary = {
    "rank": communicator.rank,
    "ranks": communicator.size,
    "first_loss": losses[0],
    "last_loss": losses[-1],
    "skipped": skipped,
    "loss_scale": float(state.scale),
    "weights": float(sum(np.abs(weight).sum() for weight in model.get_weights())),
}
summaries = communicator.all_gather_object(summary)  # of all ranks, as a check
if communicator.rank == 0:
    print(json.dumps(summaries))
communicator.close()
