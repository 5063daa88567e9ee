"""The program of each rank in `test_custom_loop.py`: it trains a model; then rank 1 stops.

The process of rank 1 still sends heartbeats. Each rank writes what it has seen into the folder that
is its argument.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from ampcore import Trainer, distributed
from tests.waiting import DEADLINE_S

SHORT_S = 1.0
"""How long rank 0 waits in the end. To start and to connect, the ranks have more time."""
BATCH = 8
EXAMPLES = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")


def train(batch_size):
    """Train a model of Keras on all ranks; returns its weights."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    trainer = Trainer.from_keras(
        model,
        data=(EXAMPLES, EXAMPLES.sum(axis=1, keepdims=True)),
        loss="mse",
        optimizer=keras.optimizers.Adam(0.1),
        batch_size=batch_size,
        epochs=2,
    )
    trainer.run()
    return [each.tolist() for each in model.get_weights()]


class Schedule(keras.callbacks.Callback):
    """Halves the learning rate in each epoch, and stops after the second one."""

    def on_epoch_begin(self, epoch, logs=None):
        self.model.optimizer.learning_rate = 0.1 / 2**epoch

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = epoch == 1


def train_with_callback(batch_size, callbacks):
    """What a run of at most four epochs with these callbacks has trained: weights and rates."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    result = Trainer.from_keras(
        model,
        EXAMPLES,
        EXAMPLES.sum(axis=1, keepdims=True),
        loss="mse",
        optimizer="sgd",
        batch_size=batch_size,
        epochs=4,
        callbacks=callbacks,
    ).run()
    weights = [weight.tolist() for weight in model.get_weights()]
    return {"weights": weights, "learning_rates": result.history["learning_rate"]}


def told(communicator):
    """What rank 0 is told when it waits for rank 1, in the third step of a loop."""

    @tf.function(autograph=False)
    def loop(steps):
        return tf.while_loop(
            lambda step, _: step < steps,
            lambda step, total: (step + 1, communicator.all_reduce([total + 1.0])[0]),
            (0, tf.zeros(3)),
        )

    loop(tf.constant(2))
    if communicator.rank == 1:
        return communicator._control.failure(DEADLINE_S)
    communicator._watch._timeout_s = SHORT_S
    try:
        loop(tf.constant(1))
    except tf.errors.OpError as error:
        return communicator.explain(error)
    return None


def main():
    folder = Path(sys.argv[1])
    communicator = distributed.connect_from_environment()
    trained = train(BATCH)
    with_callback = train_with_callback(BATCH, [Schedule()] if communicator.rank == 0 else [])
    failure = told(communicator)
    lost = {"ranks": getattr(failure, "ranks", None), "message": str(failure)}
    answer = {"trained": trained, "with_callback": with_callback, "lost": lost}
    (folder / f"rank-{communicator.rank}.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
