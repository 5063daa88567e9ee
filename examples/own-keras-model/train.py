"""Train a Keras model of your own with two inputs and two outputs, with ampcore's Trainer.

python train.py FOLDER trains in mixed precision, and prints the metrics and the saved model.
"""

import sys
from pathlib import Path

import numpy as np

from ampcore import environment

environment.configure()

import keras  # noqa: E402 - after its settings

import ampcore  # noqa: E402

DISTRICTS = 12


def flats(count: int, seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Size and district of flats; their price, and whether they are rented."""
    random = np.random.default_rng(seed)
    size = random.uniform(20, 200, (count, 1)).astype(np.float32)
    district = random.integers(DISTRICTS, size=(count, 1)).astype(np.int32)
    price = 3.0 * size + 20.0 * district
    inputs = {"size": size, "district": district}
    return inputs, {"price": price / 100, "rented": (price < 400).astype(np.float32)}


def build() -> keras.Model:
    """Normalised size and an embedded district → hidden layer → two outputs."""
    size = keras.Input((1,), name="size")
    district = keras.Input((1,), dtype="int32", name="district")
    scaled = keras.layers.Normalization(mean=110.0, variance=2700.0, name="scaled")(size)
    place = keras.layers.Flatten()(keras.layers.Embedding(DISTRICTS, 4, name="places")(district))
    hidden = keras.layers.Dense(32, activation="relu", name="hidden")(
        keras.layers.Concatenate()([scaled, place])
    )
    price = keras.layers.Dense(1, name="price")(hidden)
    rented = keras.layers.Dense(1, activation="sigmoid", name="rented")(hidden)
    return keras.Model(
        {"size": size, "district": district}, {"price": price, "rented": rented}, name="flats"
    )


def main() -> None:
    """Train, and compare the saved model with the metrics of the run."""
    trainer = ampcore.Trainer.from_keras(
        build(),
        data=flats(2000, seed=0),
        validation_data=flats(400, seed=1),
        loss={"price": "mse", "rented": "binary_crossentropy"},
        metrics={"price": ["mae"], "rented": ["accuracy"]},
        optimizer={"kind": "adam", "learning_rate": 0.01},
        batch_size=64,
        epochs=15,
        policy="mixed_float16",
        output_dir=Path(sys.argv[1]),
    )
    result = trainer.run()
    for name, value in result.metrics.items():
        print(f"{name}: {value:.4f}")
    print(f"skipped steps: {result.skipped}; saved: {result.model_file}")


if __name__ == "__main__":
    main()
