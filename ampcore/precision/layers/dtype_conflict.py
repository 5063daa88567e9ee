"""Explains errors of the dtypes in a layer: two in one operation, or one without a kernel."""

import re
import traceback
from typing import Any, Final

from ampcore.precision.layers.layer_paths import walk_layers
from ampspec.errors import InvalidModel

CONFLICT: Final = re.compile(r"[^\n]*\btype (b?float\d+)\b[^\n]*\btype (b?float\d+)\b[^\n]*")
"""TensorFlow's line about an operation whose arguments have different dtypes."""
NO_KERNEL: Final = re.compile(
    r"No OpKernel was registered to support Op '(\w+)' used by (?:\{\{node )?([^}\s]+)"
    r".*?\bDT_(\w+)",
    re.DOTALL,
)
"""TensorFlow's message about an operation that it does not have in a dtype: its name and node."""
DTYPES: Final = {"HALF": "float16", "BFLOAT16": "bfloat16"}
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


def explain_missing_kernel(model: Any, error: Exception) -> InvalidModel | None:
    """What to do about an operation that the device does not have in 16 bits; None for others.

    Args:
        model: The model that was called.
        error: What its call raised.
    """
    missing = NO_KERNEL.search(ESCAPES.sub("", str(error)))
    dtype = None if missing is None else DTYPES.get(missing[3])
    if missing is None or dtype is None:
        return None
    scopes = missing[2].split("/")
    names = {*scopes, *(re.sub(r"_\d+$", "", scope) for scope in scopes)}
    paths = [entry.info.path for entry in walk_layers(model, set()) if entry.layer.name in names]
    if not paths:
        return None
    path = paths[-1]  # the innermost
    return InvalidModel(
        "model",
        expected=f"operations that this device has in {dtype}; keep {path} in float32 with the "
        f'override {{"layers": "^{re.escape(path)}$", "dtype": "float32"}}',
        received=f"{missing[1]} in {path}, for which TensorFlow has no kernel",
    )
