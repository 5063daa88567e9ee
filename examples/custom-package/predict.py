"""Estimate the radius of the validation discs with the trained model.

python predict.py FOLDER prints the mean absolute error, which is the job's val_mae. It needs Keras
and the module that draws the discs; neither ampcore nor the package is installed for it.
"""

import sys
from pathlib import Path

import keras
import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "src"))
from custom_package.drawing import draw_discs

EXAMPLES, SIZE, NOISE, SEED = 1000, 16, 0.1, 0
"""The defaults of the dataset, and the seed of the job."""
HELD_OUT = 200
"""The last fifth, which the job did not train on."""


def main() -> None:
    """Compare the estimates with the radius."""
    if len(sys.argv) != 2:
        sys.exit("usage: python predict.py FOLDER")
    model = keras.saving.load_model(Path(sys.argv[1]) / "model.keras")
    images, radius = draw_discs(EXAMPLES, SIZE, NOISE, SEED)
    found = np.asarray(model(images[-HELD_OUT:]))[:, 0]
    print(f"mean absolute error: {np.abs(found - radius[-HELD_OUT:]).mean():.4f}")


if __name__ == "__main__":
    main()
