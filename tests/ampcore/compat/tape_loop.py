"""A loop as those that Horovod publishes, on any number of ranks: tape_loop.py FOLDER.

Rank 0 and rank 1 have other examples; a single rank has both. In the third step the gradient of
rank 1 is infinite. Each rank writes weights, decisions and exchanges to FOLDER/RANK.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras

from ampcore import compat
from ampcore.distributed import connect_from_environment

FACTORS = [1.0, 1.0, float("inf"), 1.0]
"""What rank 1 multiplies its loss by, in each step."""
EXAMPLES = {"x": [[1.0, 2.0], [3.0, -1.0]], "keys": [[0, 2], [2, 3]]}


class CountingRanks:
    """The ranks, with the number of reductions and exchanges of rows."""

    def __init__(self, ranks: Any) -> None:
        self._ranks, self.size, self.rank = ranks, ranks.size, ranks.rank
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            return getattr(self._ranks, name)(*arguments, **named)

        return call


def main(folder: Path) -> None:
    """Train four steps."""
    communicator = connect_from_environment()
    ranks = CountingRanks(communicator)
    compat.init(ranks)
    shards = [compat.rank()] if compat.size() > 1 else [0, 1]
    weight = tf.Variable([1.0 + compat.rank(), 2.0])
    table = tf.Variable(tf.ones([4, 2]))
    optimizer = compat.LossScaleOptimizer(
        tf_keras.optimizers.legacy.SGD(0.125), initial_scale=8.0, dynamic_growth_steps=100
    )
    optimizer.build([weight, table])  # so that the step is traced once
    compat.broadcast_variables([weight, table], root_rank=0)
    ranks.calls.clear()

    @tf.function
    def step(factor: Any) -> None:
        with tf.GradientTape() as tape:
            losses = []
            for shard in shards:
                rows = tf.gather(table, EXAMPLES["keys"][shard])
                example = tf.constant(EXAMPLES["x"][shard])
                loss = tf.reduce_sum(weight**2 * example) + tf.reduce_sum(rows**2)
                losses.append(loss * (factor if shard == 1 else 1.0))
            scaled = optimizer.get_scaled_loss(tf.add_n(losses) / len(losses))
        tape = compat.DistributedGradientTape(tape)
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, [weight, table]))
        optimizer.apply_gradients(zip(grads, [weight, table], strict=True))

    steps = []
    for factor in FACTORS:
        step(tf.constant(factor))
        scale, skipped = float(optimizer.loss_scale), int(optimizer.skipped_steps)
        values = [value.numpy().tolist() for value in (weight, table)]
        steps.append({"scale": scale, "skipped": skipped, "values": values})
    report = {"size": compat.size(), "calls": ranks.calls, "steps": steps}
    (folder / f"{compat.rank()}.json").write_text(json.dumps(report), encoding="utf-8")
    communicator.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
