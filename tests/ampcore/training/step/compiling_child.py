"""Runs compiled loops from several steps on; prints how many programs XLA has compiled."""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from ampcore import models, optimizers
from ampcore.data import Batch, Signature
from ampcore.precision import DynamicLossScale, layer_policies
from ampcore.training.step.clip import Clip
from ampcore.training.step.loop import NEVER_STOP, STOP_AT_SKIP, Loop
from ampcore.training.step.train_step import TrainStep
from ampspec.models.model import Mlp
from ampspec.objectives.optimizer import Adam
from ampspec.precision.precision import Precision

SIGNATURE = Signature((4,), "float32", classes=3)


def programs(folder: Path) -> int:
    return len(list(folder.glob("*.before_optimizations.txt")))


def make_loop(engine, window):
    task = models.build(Mlp(hidden=(5,)), SIGNATURE, layer_policies(Precision()))
    optimizer, scale = optimizers.build(Adam(), total_steps=10), DynamicLossScale()
    optimizer.build(task.networks[0].model.trainable_variables)
    step = TrainStep(task, [optimizer], [scale], [Clip()])
    states = (scale.init(),)
    return Loop(step, states, window, batch_size=2, engine=engine), states


def main() -> None:
    folder, counts = Path(sys.argv[1]), {}
    random = np.random.default_rng(0)
    x, y = random.random((20, 4), np.float32), random.integers(3, size=20, dtype=np.int32)
    window = Batch(tf.constant(x), tf.constant(y))
    for engine in ("xla_step", "xla_loop"):
        loop, states = make_loop(engine, window)
        before = programs(folder)
        states, _ = loop.run(states, window, 0, 0, 1)
        first = programs(folder)
        for batch, step, count in [(1, 1, 1), (4, 7, 3), (0, 10, 9)]:
            stop = STOP_AT_SKIP if step == 7 else NEVER_STOP
            states, _ = loop.run(states, window, batch, step, count, stop=stop)
        counts[engine] = first - before, programs(folder) - before
    print(json.dumps(counts))


main()
