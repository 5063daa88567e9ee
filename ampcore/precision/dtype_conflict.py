"""Explains the error of a person's own layer that computes with tensors of two dtypes."""

import re
import traceback
from typing import Any, Final

from ampcore.errors import InvalidModel
from ampcore.precision.layer_paths import walk_layers

CONFLICT: Final = re.compile(r"[^\n]*\btype (b?float\d+)\b[^\n]*\btype (b?float\d+)\b[^\n]*")
"""TensorFlow's line about an operation whose arguments have different dtypes."""
ESCAPES: Final = re.compile(r"\x1b\[[\d;]*m")


def explain_dtype_conflict(model: Any, error: Exception) -> InvalidModel | None:
    """What to do about an operation on two dtypes in a layer; None for another error.

    Args:
        model: The model that was called.
        error: What its call raised.
    """
    conflict = CONFLICT.search(ESCAPES.sub("", str(error)))
    if conflict is None or conflict[1] == conflict[2]:
        return None
    paths = {id(entry.layer): entry.info.path for entry in walk_layers(model, set())}
    path = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        path = paths.get(id(frame.f_locals.get("self")), path)
    where = "the model" if path is None else path
    override = (
        ""
        if path is None
        else f'; or keep it in float32 with the override {{"layers": "^{re.escape(path)}$", '
        '"dtype": "float32"}'
    )
    return InvalidModel(
        "model",
        expected=f"operations on tensors of one dtype in {where}: cast what it creates itself to "
        f"the dtype of its inputs{override}",
        received=conflict[0].strip(),
    )
