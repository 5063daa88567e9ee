"""What float16 needs on a CPU: ways around two kernels that take hundreds of times too long.

TensorFlow hands float16 to oneDNN where a CPU has AVX512-FP16. There the gradient of a kernel of a
convolution, and a matrix product that is fused with its bias and activation, have no code of their
own and are computed by a reference implementation. Whoever simulates a GPU's float16 on such a
machine waits for nothing else. Source: `ONEDNN_VERBOSE=1`, where these say `ref`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import keras
import tensorflow as tf

from ampcore.spec.devices import DeviceInfo
from ampcore.spec.layer_dtypes import resolve_policy
from ampcore.spec.precision import Precision, compute_dtypes

CONVOLUTIONS: Final = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
REMAPPING_OPTION: Final = "remapping"
"""Grappler's name for making one operation of several."""

Layer = Any


@contextmanager
def without_op_fusion(precision: Precision, device: DeviceInfo) -> Iterator[None]:
    """Have graphs keep their operations apart, where a layer may compute in float16 on a CPU.

    It holds for all graphs of this process that run in the meantime.
    """
    policy = resolve_policy(precision.policy, device)
    if device.kind != "cpu" or "float16" not in compute_dtypes(precision, policy):
        yield
        return
    before = tf.config.optimizer.get_experimental_options().get(REMAPPING_OPTION, True)
    tf.config.optimizer.set_experimental_options({REMAPPING_OPTION: False})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({REMAPPING_OPTION: before})


def use_float32_kernel_gradient(layer: Layer) -> None:
    """Give a convolution that computes in float16 a kernel gradient that is computed in float32.

    It is rounded to float16 at the end, as the kernel does that it stands for: the values are the
    same, and what overflows float16 overflows still. Layers of another kind or dtype are left
    alone.
    """
    if isinstance(layer, CONVOLUTIONS) and layer.compute_dtype == "float16":
        layer.convolution_op = _with_float32_kernel_gradient(layer.convolution_op)


def _with_float32_kernel_gradient(convolve: Any) -> Any:
    """The same convolution with another way to its gradient."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def convolution(inputs: Any, kernel: Any) -> Any:
        def gradients(upstream: Any) -> tuple[Any, Any]:
            # No gradient needs the outputs, so a graph drops what is convolved here once more.
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = convolve(inputs, kernel)
            of_inputs = tape.gradient(outputs, inputs, upstream)
            wide = tf.cast(kernel, tf.float32)
            with tf.GradientTape() as tape:
                tape.watch(wide)
                outputs = convolve(tf.cast(inputs, tf.float32), wide)
            of_kernel = tape.gradient(outputs, wide, tf.cast(upstream, tf.float32))
            return of_inputs, tf.cast(of_kernel, kernel.dtype)

        return convolve(inputs, kernel), gradients

    def of_values(inputs: Any, kernel: Any) -> Any:
        # Keras casts a variable where the dtypes differ; a gradient of ours is of values alone.
        return convolution(inputs, tf.convert_to_tensor(keras.ops.convert_to_tensor(kernel)))

    return of_values
