"""The program of each rank in `test_sharded_ranks.py`: trains jobs with a sharded table.

It writes what this rank has seen into the folder that is its first argument. With a second one,
`promises`, it trains only the jobs that promises are about.
"""

import json
import math
import shutil

import keras
import numpy as np

from ampcore import Trainer, distributed
from ampcore.distributed.tables import whole_tables
from ampspec.jobs import JobSpec
from tests.ampcore.distributed.rank_program import (
    FOLDER,
    ONLY_PROMISES,
    Shared,
    observed,
    weights_of,
)
from tests.ampcore.distributed.sharded_jobs import JOBS, overflow_job, plant_overflow_once

PROMISED = ("float16",)
"""Of the jobs in JOBS."""


def variable_bytes(runner):
    """The bytes of all variables of this rank."""
    variables = runner.state.expected_arrays().values()
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in variables)


def main():
    whole_tables.PIECE_BYTES = 64  # several pieces for each table
    cluster = distributed.cluster_from_environment()
    communicator = Shared(distributed.connect(cluster))
    distributed.communicator_of = lambda cluster: communicator
    found, arrays = {}, {}

    def run(name, job, folder=None, *, resume=False, should_stop=None):
        output_dir = FOLDER / (folder or name)
        trainer = Trainer(job, cluster=cluster, output_dir=output_dir, resume=resume)
        stop = None if should_stop is None else lambda: should_stop(trainer)
        found[name] = observed(trainer, stop)
        if trainer._current_run is not None:
            arrays[name] = weights_of(trainer)
            runner = trainer._current_run.runner
            shards = {key: [shard.rows] for key, shard in runner.tables.shards.items()}
            found[name] |= {"bytes": variable_bytes(runner), "shards": shards}

    for name in PROMISED if ONLY_PROMISES else JOBS:
        run(name, JobSpec.parse(JOBS[name]))
    run("again", JobSpec.parse(JOBS["float16"]))

    # Stopped by the other rank in the middle, and resumed.
    job = JobSpec.parse(JOBS["float16"])

    def stop_on_rank_1(trainer):
        return communicator.rank == 1 and trainer._current_run.totals.steps > 0

    run("stopped", job, should_stop=stop_on_rank_1)
    communicator.barrier()
    if communicator.rank == 0:
        shutil.copytree(FOLDER / "stopped", FOLDER / "stopped_copy")
    run("resumed", job, "stopped", resume=True)
    if not ONLY_PROMISES:
        run("resumed_from_one", job, "alone", resume=True)
        as_replicated = JOBS["float16_replicated"]
        communicator.barrier()
        run("resumed_replicated", JobSpec.parse(as_replicated), "stopped_copy", resume=True)

    run("overflow", overflow_job(), should_stop=plant_overflow_once())
    for name, own in arrays.items():
        np.savez(FOLDER / f"{name}-{communicator.rank}.npz", **own)
    (FOLDER / f"rank-{communicator.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    main()
