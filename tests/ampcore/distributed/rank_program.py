"""The program of each rank in `test_ranks.py`: connects once, and trains several small jobs.

It writes what this rank has seen into the folder that is its first argument. With a second one,
`promises`, it trains only the jobs that fail, and those with a slow rank.
"""

import json
import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from ampcore import Trainer, distributed
from ampcore.distributed.arrays import broadcast_arrays
from ampspec.errors import TrainingError
from ampspec.jobs import JobSpec
from tests.ampcore.distributed.rank_jobs import (
    JOBS,
    bad_example_job,
    batch_norm_job,
    own_model,
    slow_input_job,
    slow_step_job,
)

# The tests import this module, too, from processes with other arguments.
FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
ONLY_PROMISES = sys.argv[2:] == ["promises"]

MANY = 2000
"""Exchanges in a loop."""


class Shared:
    """The ranks of this process, which several trainers use one after the other."""

    def __init__(self, communicator):
        self._communicator = communicator

    def __getattr__(self, name):
        return getattr(self._communicator, name)

    def close(self, failure=None):
        pass


def observed(trainer, should_stop=None):
    """What a trainer reports, and its result or its error."""
    blocks, events = [], []
    outcome = {}
    try:
        result = trainer.run(blocks.append, events.append, should_stop)
        outcome["result"] = result.to_json()
    except TrainingError as error:
        outcome["error"] = {"reason": error.reason.value, "message": str(error)}
    names = ("loss", "skipped", "loss_scale", "grad_norm") if blocks else ()
    return outcome | {
        "rows": {name: np.concatenate([each[name] for each in blocks]).tolist() for name in names},
        "columns": list(blocks[0].names) if blocks else [],
        "events": [[event.type.value, event.step, event.data] for event in events],
    }


def weights_of(trainer):
    """Every variable of the run, by name."""
    return trainer._current_run.runner.state.capture()


def collectives(communicator):
    """Each operation once in a compiled loop, with an infinity on rank 1 in the third step."""

    def body(step, total, skipped):
        is_bad = tf.logical_and(step == 2, communicator.rank == 1)
        own = tf.fill([3], float(communicator.rank + 1)) + tf.where(is_bad, np.inf, 0.0)
        [mean] = communicator.all_reduce([own])
        finite = tf.reduce_all(tf.math.is_finite(mean))
        total = tf.cond(finite, lambda: total + mean, lambda: total)
        return step + 1, total, skipped + tf.cast(tf.logical_not(finite), tf.int32)

    @tf.function(autograph=False)
    def loop():
        return tf.while_loop(lambda step, *_: step < 5, body, (0, tf.zeros(3), 0))

    @tf.function(autograph=False)
    def others():
        own = float(communicator.rank)
        return (
            *communicator.all_reduce([tf.constant([1, 7 * communicator.rank])], "max"),
            *communicator.all_gather([tf.fill([2, 1], own)]),
            *communicator.all_to_all([tf.range(4.0) + 10 * own]),
            *communicator.broadcast([tf.constant([own + 5])], root=1),
        )

    @tf.function(autograph=False)
    def many():
        return tf.while_loop(
            lambda step, _: step < MANY,
            lambda step, total: (step + 1, communicator.all_reduce([total + 1.0])[0]),
            (0, tf.zeros(3)),
        )

    arrays = {"a": np.float16([1.5]), "b": np.array(3, np.uint8), "c": np.ones((2, 3), bool)}
    received = broadcast_arrays(communicator, arrays if communicator.rank == 0 else None)
    _, total, skipped = loop()
    return {
        "total": total.numpy().tolist(),
        "skipped": int(skipped),
        "many": many()[1].numpy().tolist(),
        "threads": len(os.listdir("/proc/self/task")),
        "others": [each.numpy().tolist() for each in others()],
        "again": [each.numpy().tolist() for each in others()],
        "arrays": [[name, array.dtype.name, array.tolist()] for name, array in received.items()],
        "objects": [
            communicator.broadcast_object({"rank": communicator.rank}),
            communicator.all_gather_object(communicator.rank),
        ],
    }


def differing_job(name, cluster, change):
    """A trainer, and a function for `should_stop` that changes the state of rank 1 once."""
    trainer = Trainer(JobSpec.parse(JOBS[name]), cluster=cluster)

    def change_rank_1():
        run = trainer._current_run
        if cluster.rank == 1 and run is not None and run.totals.steps == 1:
            change(run.runner)
        return False

    return trainer, change_rank_1


def change_a_weight(runner):
    variable = runner.networks[0].model.trainable_variables[0]
    variable.assign(variable.value * 1.5)


def change_the_scale(runner):
    runner.state.lower_scales(0.5)


def write(rank, found, arrays):
    """Write what a rank has seen, and the variables of its jobs."""
    for name, own in arrays.items():
        np.savez(FOLDER / f"{name}-{rank}.npz", **own)
    (FOLDER / f"rank-{rank}.json").write_text(json.dumps(found))


def train_all(cluster, communicator, found, arrays):
    """Train the jobs that succeed, with ranks of the same speed."""
    found["collectives"] = collectives(communicator)

    def run(name, trainer, should_stop=None):
        found[name] = observed(trainer, should_stop)
        if trainer._current_run is not None:
            arrays[name] = weights_of(trainer)

    for name, document in JOBS.items():
        run(name, Trainer(JobSpec.parse(document), cluster=cluster, output_dir=FOLDER / name))

    # Stopped by the other rank in the middle, then resumed.
    job, folder = JobSpec.parse(JOBS["dropout"]), FOLDER / "stopped"
    calls = []

    def stop_on_rank_1():
        calls.append(None)
        return communicator.rank == 1 and len(calls) > 2

    run("stopped", Trainer(job, cluster=cluster, output_dir=folder), stop_on_rank_1)
    run("resumed", Trainer(job, cluster=cluster, output_dir=folder, resume=True))

    run("bad_example", bad_example_job(cluster))
    for kind in ("local", "mean", "sync"):
        run(f"batch_norm_{kind}", batch_norm_job(cluster, kind))
    run("own_model", own_model(cluster))


def main():
    cluster = distributed.cluster_from_environment()
    communicator = Shared(distributed.connect(cluster))
    distributed.communicator_of = lambda cluster: communicator
    found, arrays = {}, {}
    if not ONLY_PROMISES:
        train_all(cluster, communicator, found, arrays)
    found["slow_input"] = observed(slow_input_job(cluster))
    found["slow_step"] = observed(slow_step_job(cluster))

    found["differs"] = observed(*differing_job("differs", cluster, change_a_weight))
    found["scale_differs"] = observed(*differing_job("scale_differs", cluster, change_the_scale))

    # Rank 1 is killed while rank 0 waits for it.
    if communicator.rank == 1:
        write(1, found, arrays)
        os.kill(os.getpid(), signal.SIGKILL)
    found["killed"] = observed(Trainer(JobSpec.parse(JOBS["dropout"]), cluster=cluster))
    write(0, found, arrays)


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    main()
