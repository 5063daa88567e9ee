"""Loads models that runs have saved in a process without ampcore, and compares predictions.

`python -m zoo.load_saved FOLDER…`: a folder is named after its architecture, and has a folder for
each policy. One JSON line for each folder.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import keras
import numpy as np

from zoo.architecture import Architecture
from zoo.outcome import CheckFailed, outcome_of
from zoo.registry import architectures

PREDICTIONS: Final = "predictions.npz"
ROUNDING: Final = 0.05
"""How far predictions in bfloat16 may be from those in float32, as a share of the largest one."""


def compare_predictions(architecture: Architecture, folder: Path) -> str:
    """Compare what the saved models predict with what the trained ones have predicted.

    Raises:
        CheckFailed: They differ.
    """
    x, *_ = architecture.batches()[0]
    compared = []
    for policy in ("float32", "mixed_bfloat16"):
        path = folder / policy / "model.keras"
        if not path.exists():
            continue
        model = keras.models.load_model(path, safe_mode=False)
        outputs = [np.array(output) for output in keras.tree.flatten(model(x, training=False))]
        with np.load(folder / policy / PREDICTIONS) as file:
            expected = [file[name] for name in file.files]
        for output, other in zip(outputs, expected, strict=True):
            if policy == "float32" and not np.array_equal(output, other):
                difference = np.abs(output - other).max()
                raise CheckFailed(f"predictions in float32 differ by {difference:.1e}")
            if policy != "float32" and architecture.chaotic:
                assert np.isfinite(output).all()
                continue
            distance = np.abs(output.astype(np.float32) - other).max() / np.abs(other).max()
            if not distance <= ROUNDING:
                raise CheckFailed(f"predictions in {policy} are {distance:.1%} away")
        if policy == "float32":
            compared.append("bit-equal")
        else:
            compared.append("bfloat16 loads" if architecture.chaotic else "bfloat16 near")
    if "bit-equal" not in compared:
        raise CheckFailed("there is no saved model")
    return ", ".join(compared)


def main() -> None:
    """Compare the models of all folders."""
    by_name = {architecture.name: architecture for architecture in architectures()}
    for path in sys.argv[1:]:
        folder = Path(path)
        architecture = by_name[folder.name]
        if architecture.module:
            import_module(architecture.module)  # registers its classes

        def measure(architecture: Architecture = architecture, folder: Path = folder) -> str:
            return compare_predictions(architecture, folder)

        outcome = outcome_of(architecture, "saved", measure, folder)
        if loaded := [name for name in sys.modules if name.partition(".")[0] == "ampcore"]:
            raise CheckFailed(f"this process has imported {loaded}")
        print(json.dumps({"name": architecture.name, **vars(outcome)}), flush=True)


if __name__ == "__main__":
    main()
