"""Flats and a Keras model of them, with two inputs and two outputs."""

import keras
import numpy as np

DISTRICTS = 12
LOSS = {"price": "mse", "rented": keras.losses.BinaryCrossentropy(from_logits=True)}
METRICS = {"price": ["mae"], "rented": [keras.metrics.BinaryAccuracy(name="accuracy", threshold=0)]}

Arrays = dict[str, np.ndarray]


def make_flats(count: int, seed: int) -> tuple[Arrays, Arrays]:
    """Size and district of flats; their price, and whether they are rented."""
    random = np.random.default_rng(seed)
    size = random.uniform(20, 200, (count, 1)).astype(np.float32)
    district = random.integers(DISTRICTS, size=(count, 1)).astype(np.int32)
    price = 3.0 * size + 20.0 * district
    inputs = {"size": size, "district": district}
    return inputs, {"price": price / 100, "rented": (price < 400).astype(np.float32)}


def build_model() -> keras.Model:
    """Normalised size and an embedded district → hidden layer → a number and a logit."""
    size = keras.Input((1,), name="size")
    district = keras.Input((1,), dtype="int32", name="district")
    scaled = keras.layers.Normalization(mean=110.0, variance=2700.0, name="scaled")(size)
    place = keras.layers.Flatten()(keras.layers.Embedding(DISTRICTS, 4, name="places")(district))
    hidden = keras.layers.Dense(32, activation="relu", name="hidden")(
        keras.layers.Concatenate()([scaled, place])
    )
    price = keras.layers.Dense(1, name="price")(hidden)
    rented = keras.layers.Dense(1, name="rented")(hidden)
    return keras.Model(
        {"size": size, "district": district}, {"price": price, "rented": rented}, name="flats"
    )
