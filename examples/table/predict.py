"""Predict the prices of the last houses with the trained model; Keras is all that it needs.

python predict.py FOLDER prints the mean absolute error, which is the job's val_mae.
"""

import csv
import math
import sys
from pathlib import Path

import keras
import tensorflow as tf

HELD_OUT = 120
"""The last fifth of the houses, which the job did not train on."""


def main() -> None:
    """Read the table as it is, and compare."""
    if len(sys.argv) != 2:
        sys.exit("usage: python predict.py FOLDER")
    model = keras.saving.load_model(Path(sys.argv[1]) / "model.keras")
    with Path("houses.csv").open(encoding="utf-8") as file:
        houses = list(csv.DictReader(file))[-HELD_OUT:]
    prices = model(
        {
            "area": tf.constant([[float(house["area"])] for house in houses]),
            "age": tf.constant([[float(house["age"] or math.nan)] for house in houses]),
            "city": tf.constant([[house["city"]] for house in houses]),
        }
    )
    errors = [
        abs(float(price) - float(house["price"]))
        for price, house in zip(prices[:, 0], houses, strict=True)
    ]
    print(f"mean absolute error: {sum(errors) / len(errors):.4f}")


if __name__ == "__main__":
    main()
