"""Predict the held-out flats with the trained model; Keras is all that it needs.

python predict.py FOLDER prints the mean absolute error and the accuracy: the metrics of training.
"""

import sys
from pathlib import Path

import flats
import keras
import numpy as np


def main() -> None:
    """Give the model the raw values, and compare."""
    if len(sys.argv) != 2:
        sys.exit("usage: python predict.py FOLDER")
    model = keras.saving.load_model(Path(sys.argv[1]) / "model.keras")
    inputs, answers = flats.make_flats(400, seed=1)
    outputs = {name: np.asarray(values, np.float32) for name, values in model(inputs).items()}
    error = np.abs(outputs["price"] - answers["price"]).mean()
    right = ((outputs["rented"] > 0) == (answers["rented"] > 0)).mean()
    print(f"val_price_mae: {error:.4f}")
    print(f"val_rented_accuracy: {right:.4f}")


if __name__ == "__main__":
    main()
