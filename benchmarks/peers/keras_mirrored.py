"""The CNN under MirroredStrategy on two logical CPUs, with Keras's loss scaling and loop."""

import json
import statistics
import time

import keras
import tensorflow as tf
from compare.problems import Cnn, batches

from peers import keras_models

REPLICAS = 2
WARMUP, REPEATS = 2, 6


def main() -> None:
    """Train, and print the examples of both replicas per second."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * REPLICAS
    tf.config.set_logical_device_configuration(cpu, logical)
    strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(REPLICAS)])
    with strategy.scope():
        model = keras_models.cnn()
        optimizer = keras_models.adam(dynamic=True)
        optimizer.build(model.trainable_variables)
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def on_replica(x: object, y: object) -> object:
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True)) / REPLICAS
            scaled = optimizer.scale_loss(loss)
        weights = [variable.value for variable in model.trainable_variables]
        optimizer.apply(tape.gradient(scaled, weights), model.trainable_variables)
        return loss

    @tf.function  # type: ignore[untyped-decorator]
    def step(x: object, y: object) -> object:
        return strategy.run(on_replica, args=(x, y))

    x, y = batches(Cnn)
    data = [
        (
            strategy.experimental_distribute_values_from_function(lambda _, one=one: one),
            strategy.experimental_distribute_values_from_function(lambda _, labels=labels: labels),
        )
        for one, labels in zip(map(tf.constant, x), map(tf.constant, y), strict=True)
    ]
    times = []
    for _ in range(WARMUP + REPEATS):
        start = time.perf_counter()
        for examples, labels in data:
            loss = step(examples, labels)
        strategy.experimental_local_results(loss)[0].numpy()
        times.append(time.perf_counter() - start)
    usual = statistics.median(times[WARMUP:]) / len(data)
    print(json.dumps({"examples_per_s": REPLICAS * Cnn.BATCH / usual}))


if __name__ == "__main__":
    main()
