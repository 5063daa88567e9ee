"""Name what is in pictures with the trained model; Keras and Pillow are all that it needs.

python predict.py FOLDER PICTURE …  prints the class of each picture, which may have any size.
python predict.py FOLDER            prints the share of right names among the validation pictures of
the example, whose classes are known; it is the job's val_accuracy.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
from PIL import Image


def main() -> None:
    """Read the pictures as they are, and resize them as the job did; the model does the rest."""
    if len(sys.argv) < 2:
        sys.exit("usage: python predict.py FOLDER [PICTURE …]")
    folder, pictures = Path(sys.argv[1]), sys.argv[2:]
    known = sorted(Path("shapes/validation").glob("*/*.png"))
    if not pictures and not known:
        sys.exit(
            "There are no pictures in shapes/validation to compare with. Name those to classify: "
            "python predict.py FOLDER PICTURE …"
        )
    model = keras.saving.load_model(folder / "model.keras")
    signature = json.loads((folder / "signature.json").read_text())
    height, width, channels = signature["models"]["model"]["inputs"]["image"]["shape"]
    classes = signature["targets"]["output"]["classes"]

    def name(file: Path) -> str:
        image = Image.open(file).convert("RGB" if channels == 3 else "L")
        pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
        logits = np.asarray(model(pixels.reshape(1, height, width, channels)))
        return str(classes[int(logits.argmax())])

    for picture in pictures:
        print(picture, name(Path(picture)))
    if not pictures:
        right = [name(file) == file.parent.name for file in known]
        print(f"right: {np.mean(right):.4f}")


if __name__ == "__main__":
    main()
