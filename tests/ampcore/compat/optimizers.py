"""Optimizers of Keras 3, of tf_keras and of TF 1 that tests wrap, by name."""

import keras
import tensorflow as tf
import tf_keras

K, T = keras.optimizers, tf_keras.optimizers
OPTIMIZERS = {
    "SGD": lambda: K.SGD(0.1, momentum=0.9, nesterov=True),
    "RMSprop": lambda: K.RMSprop(0.1, momentum=0.9, centered=True),
    "Adam": lambda: K.Adam(0.1, amsgrad=True, weight_decay=0.01),
    "AdamW": lambda: K.AdamW(0.1),
    "Adadelta": lambda: K.Adadelta(0.1),
    "Adagrad": lambda: K.Adagrad(0.1),
    "Adamax": lambda: K.Adamax(0.1),
    "Adafactor": lambda: K.Adafactor(0.1),
    "Nadam": lambda: K.Nadam(0.1),
    "Ftrl": lambda: K.Ftrl(0.1),
    "Lion": lambda: K.Lion(0.1),
    "Lamb": lambda: K.Lamb(0.1),
    "Muon": lambda: K.Muon(0.1),
    "ScheduleFreeAdamW": lambda: K.ScheduleFreeAdamW(0.1),
    "tf_keras.SGD": lambda: T.SGD(0.1, momentum=0.9),
    "tf_keras.RMSprop": lambda: T.RMSprop(0.1, momentum=0.9, centered=True),
    "tf_keras.Adam": lambda: T.Adam(0.1, amsgrad=True, use_ema=True),
    "tf_keras.Adagrad": lambda: T.Adagrad(0.1),
    "tf_keras.Adamax": lambda: T.Adamax(0.1),
    "tf_keras.Ftrl": lambda: T.Ftrl(0.1),
    "tf_keras.legacy.Adam": lambda: T.legacy.Adam(0.1),
    "tf_keras.legacy.Nadam": lambda: T.legacy.Nadam(0.1),
    "tf.compat.v1.train.Adam": lambda: tf.compat.v1.train.AdamOptimizer(0.1),
}
