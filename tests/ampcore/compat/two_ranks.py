"""A program of two ranks: an overflow in the embeddings of one rank, in the form that is named.

    two_ranks.py tf1|tf2 FOLDER

Each rank writes what it saw after every step to FOLDER/RANK.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from ampcore import compat

v1 = tf.compat.v1
FACTORS = [{}, {1: float("inf")}, {}, {0: float("nan")}, {}]
"""For each step what the losses of ranks' tables are multiplied by, if not by 1."""
RATE = 0.125


def loss_of(table: Any, weights: Any, factor: Any) -> Any:
    """Each rank has other rows and other examples."""
    looked_up = tf.reduce_sum(tf.gather(table, [0, 2]) ** 2) * factor
    return looked_up + tf.reduce_sum(weights**2) * (1.0 + compat.rank())


def factors_of_this_rank() -> list[float]:
    return [factors.get(compat.rank(), 1.0) for factors in FACTORS]


def train_tf2() -> list[Any]:
    compat.init()
    table = tf.Variable(tf.ones([3, 2]) * (1.0 + compat.rank()))
    weights = tf.Variable([0.5, -2.0] if compat.rank() == 0 else [7.0, 7.0])
    compat.broadcast_variables([weights])
    optimizer = compat.LossScaleOptimizer(keras.optimizers.SGD(RATE), initial_scale=8.0)

    @tf.function
    def step(factor: Any) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(table, weights, factor)
            scaled_loss = optimizer.get_scaled_loss(loss)
        table_grad, grad = tape.gradient(scaled_loss, [table, weights])
        [table_grad] = optimizer.get_unscaled_gradients([table_grad])
        [grad] = optimizer.get_unscaled_gradients([grad])
        optimizer.apply_gradients([(table_grad, table)], experimental_aggregate_gradients=False)
        optimizer.apply_gradients([(grad, weights)])

    found = []
    for factor in factors_of_this_rank():
        step(tf.constant(factor))
        numbers = [optimizer.loss_scale, optimizer.skipped_steps, table, weights]
        found.append([value.numpy().tolist() for value in numbers])
    return found


def train_tf1() -> list[Any]:
    with tf.Graph().as_default():
        compat.init()
        table = v1.get_variable("table", initializer=tf.ones([3, 2]) * (1.0 + compat.rank()))
        first = [0.5, -2.0] if compat.rank() == 0 else [7.0, 7.0]
        weights = v1.get_variable("weights", initializer=first)
        broadcast = compat.broadcast_variables([weights])
        factor = v1.placeholder(tf.float32, [])
        inner = v1.train.GradientDescentOptimizer(RATE)
        optimizer = compat.LossScaleOptimizer(inner, initial_scale=8.0)
        loss = loss_of(table, weights, factor)
        table_grad, grad = tf.gradients(optimizer.get_scaled_loss(loss), [table, weights])
        [table_grad] = optimizer.get_unscaled_gradients([table_grad])
        [grad] = optimizer.get_unscaled_gradients([grad])
        grad = compat.all_reduce(grad)
        updates = [
            optimizer.apply_gradients([(table_grad, table)]),
            optimizer.apply_gradients([(grad, weights)]),
        ]
        with tf.control_dependencies(updates):
            loss = tf.identity(loss)
        numbers = [optimizer.loss_scale, optimizer.skipped_steps, table, weights]
        found = []
        with compat.session() as session:
            session.run(v1.global_variables_initializer())
            session.run(broadcast)
            for value in factors_of_this_rank():
                session.run(loss, {factor: value})
                found.append([number.tolist() for number in session.run(numbers)])
    return found


if __name__ == "__main__":
    steps = {"tf1": train_tf1, "tf2": train_tf2}[sys.argv[1]]()
    text = json.dumps({"ranks": compat.size(), "steps": steps})
    Path(sys.argv[2], f"{compat.rank()}.json").write_text(text, encoding="utf-8")
