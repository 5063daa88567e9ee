"""The jobs that `test_ranks.py` trains on two ranks and in one process."""

import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from ampcore import Trainer

DIGITS = {"kind": "digits", "batch_size": 64}
NO_RANGES = {"ranges": {"enabled": False}}
HIGH_SCALE = {"mode": "dynamic", "initial": 2.0**24, "growth_interval": 4}
"""The first steps are skipped, and a later one each time that it has grown."""


def job(model=None, **parts):
    """The document of a job on two ranks."""
    runtime = {"devices": 2, "engine": "graph"} | parts.pop("runtime", {})
    train = {"steps": 30, "seed": 3} | parts.pop("train", {})
    model = model or {"kind": "mlp", "hidden": [16]}
    common = {"model": model, "data": DIGITS, "runtime": runtime, "train": train}
    return common | {"telemetry": NO_RANGES} | parts


FLOAT16 = {"precision": {"policy": "mixed_float16"}, "loss_scale": HIGH_SCALE}
DROPOUT = {"kind": "mlp", "hidden": [16, 16], "dropout": 0.3}

JOBS = {
    "dropout": job(DROPOUT, **FLOAT16),
    "accumulated": job(DROPOUT, **FLOAT16, train={"accumulate": 2, "steps": 8}),
    "float16_exchange": job(
        **FLOAT16, runtime={"exchange": {"gradient_dtype": "float16", "bucket_bytes": 1024}}
    ),
    "bfloat16_exchange": job(runtime={"exchange": {"gradient_dtype": "bfloat16"}}),
    "xla_step": job(DROPOUT, **FLOAT16, runtime={"engine": "xla_step"}),
    "early_stopping": job(
        train={"epochs": 8, "steps": None, "early_stopping": {"patience": 1, "min_delta": 100}}
    ),
    "gan": job({"kind": "gan"}, train={"steps": 3}),
    "profiled": job(
        {
            "kind": "mlp",
            "hidden": [512],
        },  # gradients that travel in a ring
        train={"steps": 6},
        runtime={"profile": {"start": 2, "steps": 2}},
    ),
    "differs": job(train={"steps": 20}, runtime={"exchange": {"check_every_steps": 10}}),
    "scale_differs": job(
        **FLOAT16, train={"steps": 20}, runtime={"exchange": {"check_every_steps": 10}}
    ),
}

EXAMPLES, BATCH = 64, 8
DELAY_S = 0.1
"""The delay of a slow rank in each step: a hundred times the time that the others compute."""
BAD_EXAMPLE = 3 * 2 * BATCH + BATCH + 5
"""In step 3, among the examples of rank 1."""


def data(seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(EXAMPLES, 6)).astype(np.float32)
    return x, random.integers(0, 3, EXAMPLES)


def bad_example_job(cluster=None):
    """A job with one example that overflows; in the order of the data."""
    x, y = data()
    x[BAD_EXAMPLE] = np.inf
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8), layers.Dense(3)])
    return trainer_of(model, (x, y), cluster, policy="mixed_float16", shuffle=False)


def batch_norm_job(cluster=None, kind="mean", batch_size=BATCH, **options):
    """A job whose statistics depend on how they are exchanged."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8), layers.BatchNormalization(), layers.Dense(3)]
    )
    runtime = {"exchange": {"batch_norm": kind}}
    return trainer_of(
        model, data(), cluster, runtime=runtime, batch_size=batch_size, shuffle=False, **options
    )


class Batches(keras.utils.PyDataset):
    """Batches that arrive in an order of their own."""

    def __len__(self):
        return EXAMPLES // BATCH

    def __getitem__(self, index):
        rows = slice(index * BATCH, (index + 1) * BATCH)
        x, y = data()
        return x[rows], y[rows]


class SlowBatches(Batches):
    """Batches that take as long as a slow disk to read."""

    def __getitem__(self, index):
        time.sleep(DELAY_S)
        return super().__getitem__(index)


def own_model(cluster=None, batches=None, **options):
    """A model of Keras on batches of a source."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8), layers.Dense(3)])
    return trainer_of(model, batches or Batches(), cluster, batch_size=None, **options)


def slow_input_job(cluster):
    """A job whose rank 1 reads its examples slowly."""
    batches = SlowBatches() if cluster.rank == 1 else Batches()
    return own_model(cluster, batches, train={"epochs": 8})


def slow_step_job(cluster):
    """A job whose rank 1 computes slowly."""

    def delay():
        if cluster.rank == 1:
            time.sleep(DELAY_S)

    def loss(targets, predictions):
        with tf.control_dependencies([tf.py_function(delay, [], [])]):
            predictions = tf.identity(predictions)
        return keras.losses.sparse_categorical_crossentropy(targets, predictions, from_logits=True)

    return own_model(cluster, train={"epochs": 8}, loss=loss)


def trainer_of(
    model, examples, cluster=None, *, runtime=None, batch_size=BATCH, loss=None, **options
):
    """A trainer of two epochs; on two ranks if there is a cluster."""
    train = {"seed": 5, "epochs": 2, **options.pop("train", {})}
    ranks = {} if cluster is None else {"devices": cluster.size}
    return Trainer.from_keras(
        model,
        data=examples,
        loss=loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer={"kind": "sgd", "learning_rate": 0.1},
        batch_size=batch_size,
        train=train,
        telemetry=NO_RANGES,
        runtime={"engine": "graph", **ranks, **(runtime or {})},
        cluster=cluster,
        **options,
    )
