"""The program of each rank in `test_table_memory.py`: trains a large table with little memory.

Its arguments are a folder for what it has seen and saved, and the number of steps until it stops.
Started without `launch` it trains alone.
"""

import json
import sys
from pathlib import Path

import keras
import tensorflow as tf

from ampcore import Trainer, distributed
from ampspec.jobs import JobSpec
from tests.memory_limit import MemoryLimit

ROWS, DIM = 2_000_000, 32
VARIABLES_BYTES = 3 * ROWS * DIM * 4
"""The table and the two moments of Adam."""
LIMIT_BYTES = VARIABLES_BYTES * 9 // 10
STEPS = 6


def job(ranks):
    """A job whose memory is mostly that of its table."""
    keys = {"vocabulary": ROWS, "slots": 2, "nnz": 2}
    data = {"kind": "synthetic_clicks", "examples": 640, "batch_size": 32, "validation_split": 0.1}
    return JobSpec.parse(
        {
            "model": {"kind": "embedding", "dim": DIM, "placement": "sharded", **keys},
            "data": data | keys,
            "train": {"steps": STEPS},
            "runtime": {"devices": ranks, "engine": "graph"},
        }
    )


def main():
    folder, last_step = Path(sys.argv[1]), int(sys.argv[2])
    cluster = distributed.cluster_from_environment()
    if cluster is None:
        tf.constant(0.0)  # starts TensorFlow, as connecting does
    rank, ranks = (0, 1) if cluster is None else (cluster.rank, cluster.size)
    limit = MemoryLimit(LIMIT_BYTES, folder / f"exceeded-{rank}")
    trainer = Trainer(job(ranks), output_dir=folder, resume=True, cluster=cluster)
    result = trainer.run(should_stop=lambda: trainer._current_run.totals.steps >= last_step)
    found = {"peak_bytes": limit.peak_bytes, "result": result.to_json()}
    (folder / f"rank-{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    main()
