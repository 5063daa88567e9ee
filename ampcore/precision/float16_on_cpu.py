"""Workarounds for two float16 kernels that are hundreds of times too slow on CPUs.

TensorFlow uses oneDNN for float16 if the CPU has AVX512-FP16. oneDNN has no optimised code for the
gradient of a convolution's kernel, nor for a matrix product that is fused with its bias and
activation, and computes them with a reference implementation, which then dominates the time of a
step. Source: `ONEDNN_VERBOSE=1`, which lists these as `ref`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import keras
import tensorflow as tf

from ampspec.precision.devices import DeviceInfo
from ampspec.precision.layer_dtypes import resolve_policy
from ampspec.precision.precision import Precision, compute_dtypes

CONVOLUTIONS: Final = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
REMAPPING_OPTION: Final = "remapping"
"""Grappler's name for the fusion of operations."""

Layer = Any


@contextmanager
def without_op_fusion(precision: Precision, device: DeviceInfo) -> Iterator[None]:
    """Disable the fusion of operations, if a layer may compute in float16 on a CPU.

    It affects all graphs of this process that run inside the context.
    """
    policy = resolve_policy(precision.policy, device)
    if device.kind != "cpu" or "float16" not in compute_dtypes(precision, policy):
        yield
        return
    previous_value = tf.config.optimizer.get_experimental_options().get(REMAPPING_OPTION, True)
    tf.config.optimizer.set_experimental_options({REMAPPING_OPTION: False})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({REMAPPING_OPTION: previous_value})


def with_float32_kernel_gradient(layer: Layer) -> Callable[..., Any]:
    """The convolution of a float16 layer, with the gradient of its kernel computed in float32.

    The result is rounded to float16, as in the replaced kernel: the values are the same, and values
    above float16's range still overflow.

    Args:
        layer: One of CONVOLUTIONS.

    Returns:
        What computes as `layer.convolution_op`.
    """
    function: Callable[..., Any] = _with_float32_kernel_gradient(layer.convolution_op)
    return function


def _with_float32_kernel_gradient(convolve: Any) -> Any:
    """The same convolution with another gradient function."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def convolution(inputs: Any, kernel: Any) -> Any:
        def gradients(upstream: Any) -> tuple[Any, Any]:
            # No gradient needs the outputs, so the graph removes this second convolution.
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
        # Keras casts a variable if the dtypes differ; a custom gradient only gets values.
        return convolution(inputs, tf.convert_to_tensor(keras.ops.convert_to_tensor(kernel)))

    return of_values
