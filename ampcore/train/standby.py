"""Makes a process that will train soon quick to its first step."""

import gc

import tensorflow as tf

from ampcore.spec import JobSpec
from ampcore.train.trainer import Trainer

# The dearest path: convolutions, dropout, float16 with a dynamic scale, and an evaluation.
REHEARSAL = {
    "name": "rehearsal",
    "model": {"kind": "cnn"},
    "data": {"kind": "digits", "batch_size": 256},
    "precision": {"policy": "mixed_float16"},
    # Nothing overflows: a run of nothing but skipped steps would be a failure.
    "loss_scale": {"mode": "dynamic", "initial": 1.0},
    "train": {"steps": 1},
}


def warm_up() -> None:
    """Train a tiny job for the sake of the code it loads, where no GPU is to be seen.

    Keras's lazy parts, TensorFlow's kernels and its graph optimizer are then in memory. On a
    machine with a GPU nothing happens: whoever only stands by must not take its memory.
    """
    if not tf.config.list_physical_devices("GPU"):
        Trainer(JobSpec.parse(REHEARSAL)).run()
    # What is left of it is here to stay: spare the collector from walking it again and again
    # while the job's graph is traced.
    gc.collect()
    gc.freeze()
