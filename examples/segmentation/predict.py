"""Segment the last images with the trained model.

python predict.py FOLDER prints the share of right pixels, which is the job's val_accuracy.
"""

import sys
from pathlib import Path

import keras
import numpy as np

HELD_OUT = 60


def main() -> None:
    """Read the images as they are; the model rescales them itself."""
    if len(sys.argv) != 2:
        sys.exit("usage: python predict.py FOLDER")
    model = keras.saving.load_model(Path(sys.argv[1]) / "model.keras")
    with np.load("cells.npz") as cells:
        images, masks = cells["image"][-HELD_OUT:], cells["mask"][-HELD_OUT:]
    predicted = np.asarray(model(images)).argmax(axis=-1)
    print(f"right: {(predicted == masks).mean():.4f}")


if __name__ == "__main__":
    main()
