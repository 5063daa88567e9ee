"""The problems as Keras models, for `fit` and for the custom training loop."""

from typing import Any

import keras
from compare.problems import CLASSES, LEARNING_RATE, Cnn, Mlp
from keras import layers


def mlp() -> Any:
    """The small perceptron, to logits."""
    dense = [layers.Dense(units, activation="relu") for units in Mlp.HIDDEN]
    return keras.Sequential([keras.Input(Mlp.INPUT), *dense, layers.Dense(CLASSES)])


def cnn() -> Any:
    """The MNIST convolutional network, to float32 logits."""
    model = keras.Sequential(
        [
            keras.Input(Cnn.INPUT),
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(CLASSES, dtype="float32"),
        ]
    )
    assert model.count_params() == Cnn.PARAMETERS
    return model


def adam(*, dynamic: bool) -> Any:
    """Adam, with or without Keras's dynamic loss scaling."""
    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    return keras.optimizers.LossScaleOptimizer(optimizer) if dynamic else optimizer


def loss() -> Any:
    """Sparse categorical cross-entropy of logits."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
