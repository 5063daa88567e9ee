"""Loops over two shards, with infinities and NaN in one group of one shard, on one rank or on two.

    overflowing_loops.py tf1|tf2 FOLDER

A shard has rows of a table and examples. Of two ranks each has one shard, a single rank has both.
Each rank writes what it saw after every step to FOLDER/RANK.json. `tf2` runs the loop as a
tf.function, and once more eagerly.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ampcore import compat

v1 = tf.compat.v1
INF, NAN = float("inf"), float("nan")
SHARDS = 2
FACTORS: list[dict[tuple[str, int], float]] = [
    {},
    {("table", 1): INF},
    {},
    {},
    {("weights", 1): -INF},
    {},
    {("table", 0): NAN},
    {("weights", 0): INF, ("table", 1): INF},
    {},
    {},
    {("weights", 0): NAN},
    {},
]
"""For each step what the losses of a group are multiplied by in a shard, if not by 1."""
RATE, MOMENTUM = 0.125, 0.5
ARGUMENTS = {"initial_scale": 8.0, "dynamic_growth_steps": 2}
WEIGHTS = [0.5, -2.0]


def own_shards() -> range:
    return range(compat.rank(), SHARDS, compat.size())


def own_factors(factors: dict[tuple[str, int], float]) -> list[list[float]]:
    """The factors of the tables and those of the weights, for each shard of this rank."""
    return [
        [factors.get((group, shard), 1.0) for shard in own_shards()]
        for group in ("table", "weights")
    ]


def own_rows() -> Any:
    """Three rows for each shard of this rank."""
    rows = np.arange(1, 1 + 6 * SHARDS, dtype=np.float32).reshape(SHARDS, 3, 2) / 8
    return np.concatenate([rows[shard] for shard in own_shards()])


def first_weights() -> list[float]:
    """Those of rank 0 are right; the others get them from it."""
    return WEIGHTS if compat.rank() == 0 else [7.0, 7.0]


def loss_of(table: Any, weights: Any, table_factors: Any, weights_factors: Any) -> Any:
    """The mean over the shards. The rows belong to one rank: their share is of all shards."""
    tables, others = [], []
    for number, shard in enumerate(own_shards()):
        rows = tf.gather(table, [3 * number, 3 * number + 2])
        tables.append(tf.reduce_sum(rows**2) * table_factors[number] / SHARDS)
        others.append(tf.reduce_sum(weights**2) * (1.0 + shard) * weights_factors[number])
    return tf.add_n(tables) + tf.add_n(others) / len(others)


def are_finite(table_grad: Any, grad: Any) -> Any:
    """Of the gradients of the table and of the weights, before ranks exchange anything."""
    values = [table_grad.values, grad]
    return tf.stack([tf.reduce_all(tf.math.is_finite(value)) for value in values])


def observed(optimizer: compat.LossScaleOptimizer, table: Any, weights: Any) -> dict[str, Any]:
    """What is compared after every step."""
    return {
        "loss_scale": optimizer.loss_scale,
        "good_steps": optimizer.dynamic_counter,
        "skipped": optimizer.skipped_steps,
        "table": table,
        "weights": weights,
    }


def train_tf2(compiled: Callable[[Any], Any]) -> list[Any]:
    table, weights = tf.Variable(own_rows()), tf.Variable(first_weights())
    compat.broadcast_variables([weights])
    optimizer = compat.LossScaleOptimizer(keras.optimizers.SGD(RATE, MOMENTUM), **ARGUMENTS)

    def step(table_factors: Any, weights_factors: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(table, weights, table_factors, weights_factors)
            scaled_loss = optimizer.get_scaled_loss(loss)
        table_grad, grad = tape.gradient(scaled_loss, [table, weights])
        [table_grad] = optimizer.get_unscaled_gradients([table_grad])
        [grad] = optimizer.get_unscaled_gradients([grad])
        finite = are_finite(table_grad, grad)
        optimizer.apply_gradients([(table_grad, table)], experimental_aggregate_gradients=False)
        optimizer.apply_gradients([(grad, weights)])
        return finite

    step = compiled(step)
    found = []
    for factors in FACTORS:
        finite = step(*map(tf.constant, own_factors(factors)))
        seen = observed(optimizer, table, weights) | {"finite": finite}
        found.append({name: value.numpy().tolist() for name, value in seen.items()})
    return found


def train_tf1() -> list[Any]:
    with tf.Graph().as_default():
        compat.init()
        table = v1.get_variable("table", initializer=own_rows())
        weights = v1.get_variable("weights", initializer=first_weights())
        broadcast = compat.broadcast_variables([weights])
        fed = [v1.placeholder(tf.float32, [len(own_shards())]) for _ in range(2)]
        inner = v1.train.MomentumOptimizer(RATE, MOMENTUM)
        optimizer = compat.LossScaleOptimizer(inner, **ARGUMENTS)
        loss = loss_of(table, weights, *fed)
        table_grad, grad = tf.gradients(optimizer.get_scaled_loss(loss), [table, weights])
        [table_grad] = optimizer.get_unscaled_gradients([table_grad])
        [grad] = optimizer.get_unscaled_gradients([grad])
        finite = are_finite(table_grad, grad)
        updates = [
            optimizer.apply_gradients([(table_grad, table)]),
            optimizer.apply_gradients([(compat.all_reduce(grad), weights)]),
        ]
        with tf.control_dependencies(updates):
            loss = tf.identity(loss)
        seen = observed(optimizer, table, weights)
        found = []
        with compat.session() as session:
            session.run(v1.global_variables_initializer())
            session.run(broadcast)
            for factors in FACTORS:
                feed = dict(zip(fed, own_factors(factors), strict=True))
                _, own_finite = session.run([loss, finite], feed)
                values = session.run(seen) | {"finite": own_finite}
                found.append({name: value.tolist() for name, value in values.items()})
    return found


def main(form: str, folder: Path) -> None:
    if form == "tf1":
        loops = {"session": train_tf1()}
    else:
        compat.init()
        loops = {"function": train_tf2(tf.function), "eager": train_tf2(lambda step: step)}
    text = json.dumps({"ranks": compat.size(), "loops": loops})
    folder.joinpath(f"{compat.rank()}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
