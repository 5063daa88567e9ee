"""Count the loops of the validation digits of loops.npz with the model of the second job.

python predict.py FOLDER prints the share of right counts, which is the job's val_accuracy.
"""

import sys
from pathlib import Path

import keras
import numpy as np


def main() -> None:
    """Read the images as they are, from 0 to 16; the model rescales them itself."""
    if len(sys.argv) != 2:
        sys.exit("usage: python predict.py FOLDER")
    model = keras.saving.load_model(Path(sys.argv[1]) / "model.keras")
    with np.load("loops.npz", allow_pickle=False) as archive:
        images, loops = archive["x_test"], archive["y_test"]
    logits = np.asarray(model(images))
    print(f"right: {np.mean(logits.argmax(axis=-1) == loops):.4f}")


if __name__ == "__main__":
    main()
