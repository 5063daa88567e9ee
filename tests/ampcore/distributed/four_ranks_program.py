"""The program of each rank in `test_four_ranks.py`: trains one small job.

It writes what this rank has seen into the folder that is its argument.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
from keras import layers

from ampcore import Trainer, distributed
from tests.ampcore.distributed.rank_program import Shared

# The test imports this module, too, from a process with other arguments.
FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()

RANKS = 4
BATCH = 8
STEPS = 16
EXAMPLES = STEPS * RANKS * BATCH
OVERFLOW_STEP, OVERFLOW_RANK = 9, 3
COLUMNS = ("loss", "skipped", "loss_scale", "grad_norm")


def trainer(*, accumulate=1, cluster=None):
    """A trainer of one epoch in which one example of one rank is infinite."""
    random = np.random.default_rng(0)
    x = random.normal(size=(EXAMPLES, 6)).astype(np.float32)
    x[(OVERFLOW_STEP * RANKS + OVERFLOW_RANK) * BATCH + 5] = np.inf
    keras.utils.set_random_seed(1)
    # Named: in a process with other models Keras would number them, and the arrays of a state too.
    model = keras.Sequential(
        [
            keras.Input((6,), name="inputs"),
            layers.Dense(8, "relu", name="hidden"),
            layers.Dropout(0.3, name="dropout"),
            layers.Dense(3, name="logits"),
        ],
        name="network",
    )
    return Trainer.from_keras(
        model,
        data=(x, random.integers(0, 3, EXAMPLES)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer={"kind": "adam", "learning_rate": 0.01},
        batch_size=BATCH,
        shuffle=False,
        policy="mixed_float16",
        # The first steps are skipped, and later ones each time that it has grown.
        loss_scale={"mode": "dynamic", "initial": 2.0**24, "growth_interval": 2},
        train={"seed": 5, "accumulate": accumulate},
        telemetry={"ranges": {"enabled": False}},
        runtime={"engine": "graph"} | ({"devices": RANKS} if cluster else {}),
        cluster=cluster,
    )


def train(trainer):
    """Train; returns the rows of the steps, which only rank 0 has, and the final state."""
    blocks = []
    trainer.run(blocks.append)
    rows = {name: [value for block in blocks for value in block[name].tolist()] for name in COLUMNS}
    return rows, trainer._current_run.runner.state.capture()


def main():
    cluster = distributed.cluster_from_environment()
    communicator = Shared(distributed.connect(cluster))  # before the first tensor of the model
    distributed.communicator_of = lambda cluster: communicator
    rows, arrays = train(trainer(cluster=cluster))
    np.savez(FOLDER / f"weights-{cluster.rank}.npz", **arrays)
    (FOLDER / f"rank-{cluster.rank}.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
