"""TensorFlow's large matrix products: how fast this machine can multiply."""

from functools import partial
from typing import Any

import tensorflow as tf
from compare.problems import Product
from compare.serve import TimedRound, serve


def products(dtype: Any) -> dict[str, TimedRound]:
    """A TimedRound for each shape; its steps are GFLOP."""
    return {str(shape): product(*shape, dtype) for shape in Product.SHAPES}


def product(rows: int, inner: int, columns: int, dtype: Any) -> TimedRound:
    """The same product over and over."""
    left = tf.cast(tf.random.uniform([rows, inner]), dtype)
    right = tf.cast(tf.random.uniform([inner, columns]), dtype)
    multiply = tf.function(lambda: tf.matmul(left, right))
    gflop = 2e-9 * rows * inner * columns

    def multiplied() -> float:
        for _ in range(Product.STEPS):
            out = multiply()
        assert out.shape == (rows, columns)
        return Product.STEPS * gflop

    return multiplied


if __name__ == "__main__":
    serve(
        {
            "float32": partial(products, tf.float32),
            "bfloat16": partial(products, tf.bfloat16),
        },
        "tensorflow-cpu",
    )
