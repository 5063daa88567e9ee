"""One step of Keras's LossScaleOptimizer on two ranks, with an infinity on one of them.

Prints the weight after the step: its argument says which rank gets the infinity, or `none`.
"""

import sys

import keras
import numpy as np
import tensorflow as tf


def main(bad):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        weight = keras.Variable([1.0], name="weight")
        sgd = keras.optimizers.SGD(0.5)
        optimizer = keras.optimizers.LossScaleOptimizer(sgd, initial_scale=4.0)
        optimizer.build([weight])

    @tf.function
    def step():
        def on_rank():
            number = tf.distribute.get_replica_context().replica_id_in_sync_group
            is_bad = tf.constant(bad) == tf.strings.as_string(number)
            gradient = tf.where(is_bad, np.inf, 1.0) * optimizer.scale_loss(tf.ones([1]))
            optimizer.apply([gradient], [weight])

        strategy.run(on_rank)

    step()
    print(float(weight.numpy()[0]))


if __name__ == "__main__":
    main(sys.argv[1])
