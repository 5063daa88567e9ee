"""TF32: float32 matrix products of GPUs with operands rounded to 10 bits of mantissa.

TensorFlow uses it unless it is told otherwise. Source: NVIDIA, "TensorFloat-32 in the A100 GPU".
"""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf


@contextmanager
def tensor_float32(*, allowed: bool) -> Iterator[None]:
    """Allow TF32 in float32 products, or forbid it; also in those of other threads.

    A setting of the process: it is restored, so that the next run of this process is not affected.
    """
    was_allowed = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(allowed)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(was_allowed)
