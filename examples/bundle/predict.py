"""Classify the last points with the trained model; needs only Keras and the bundle's module.

python predict.py FOLDER prints the accuracy, which is the job's val_accuracy.
"""

import sys
from pathlib import Path

import keras
import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "code"))
import gated  # noqa: F401 - registers its layer, so that Keras finds it

HELD_OUT = 300
"""The last fifth of the points, which the job did not train on."""

if len(sys.argv) != 2:
    sys.exit("usage: python predict.py FOLDER")
model = keras.saving.load_model(Path(sys.argv[1]) / "model.keras")
data = np.load("points.npz")
arms = model(data["x"][-HELD_OUT:]).numpy().argmax(axis=-1)
print(f"accuracy: {(arms == data['y'][-HELD_OUT:]).mean():.4f}")
