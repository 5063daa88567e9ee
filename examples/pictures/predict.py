"""Name the shapes of the validation pictures with the trained model.

python predict.py FOLDER prints the share of right names, which is the job's val_accuracy.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
from PIL import Image

SIZE = (32, 32)


def main() -> None:
    """Read the pictures as they are; the model rescales them itself."""
    folder = Path(sys.argv[1])
    model = keras.saving.load_model(folder / "model.keras")
    targets = json.loads((folder / "signature.json").read_text())["targets"]
    classes = targets["output"]["classes"]
    right = []
    for file in sorted(Path("shapes/validation").glob("*/*.png")):
        image = Image.open(file).resize(SIZE, Image.Resampling.BILINEAR)
        logits = np.asarray(model(np.asarray(image)[np.newaxis]))
        right.append(classes[int(logits.argmax())] == file.parent.name)
    print(f"right: {np.mean(right):.4f}")


if __name__ == "__main__":
    main()
