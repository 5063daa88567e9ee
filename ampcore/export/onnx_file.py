"""A model as an ONNX file: tf2onnx converts it, and onnxruntime runs it for the comparison.

`keras.Model.export(format="onnx")` is not used: it reports success for operations that ONNX does
not have, and names inputs by numbers.
"""

import contextlib
import io
import logging
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from ampcore.export.named_model import Arrays, ExportFailed, NamedModel
from ampspec.documents.text import join_names

LIBRARIES: Final = ("tf2onnx", "onnx", "onnxruntime")
OPSET: Final = 18
"""The newest one that tf2onnx supports."""


def missing_libraries() -> list[str]:
    """The libraries of the extra `onnx` that are not installed here."""
    return [name for name in LIBRARIES if find_spec(name) is None]


def save(named_model: NamedModel, file: Path) -> None:
    """Convert a model.

    Raises:
        ExportFailed: A library is missing, or an operation has no counterpart in ONNX.
    """
    if missing := missing_libraries():
        raise ExportFailed(
            f"This worker does not have {join_names(missing)}: install the extra onnx, as in pip "
            'install "ampcore[worker-cpu,onnx]".'
        )
    import onnx
    import tensorflow as tf
    import tf2onnx

    function = tf.function(named_model.call, autograph=False)
    # tf2onnx prints and logs what it cannot convert, and converts the rest.
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        model, _ = tf2onnx.convert.from_function(
            function,
            input_signature=named_model.specs,
            opset=OPSET,
            custom_op_handlers={"Erfc": (_erfc, [])},
        )
    _check_operations(model)
    _name_outputs(model, named_model)
    onnx.checker.check_model(model)
    onnx.save_model(model, str(file))


def run(named_model: NamedModel, file: Path, arrays: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs of an ONNX file for arrays by column."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    inputs = {
        name: arrays[column]
        for column, name in zip(named_model.columns, named_model.inputs, strict=True)
    }
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def _erfc(context: Any, node: Any, name: str, arguments: Any) -> Any:
    """1 - Erf: ONNX has no Erfc, which the GELU of Keras uses."""
    dtype = context.get_dtype(node.input[0])
    error_function = context.make_node("Erf", [node.input[0]], dtypes=[dtype])
    unit = context.make_const(f"{name}_one", np.ones((), _numpy_dtype(dtype)))
    shape = context.get_shape(node.output[0])
    context.remove_node(name)
    inputs = [unit.output[0], error_function.output[0]]
    return context.make_node(
        "Sub", inputs, name=name, outputs=node.output, dtypes=[dtype], shapes=[shape]
    )


def _numpy_dtype(dtype: Any) -> Any:
    from tf2onnx import utils

    return utils.map_onnx_to_numpy_type(dtype)


def _check_operations(model: Any) -> None:
    """Raise ExportFailed for operations that tf2onnx has left as TensorFlow calls them."""
    import onnx

    unknown = Counter(
        node.op_type
        for node in model.graph.node
        if node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type)
    )
    if unknown:
        names = join_names(sorted(unknown))
        raise ExportFailed(f"ONNX has no counterpart of the TensorFlow operations {names}.")


def _name_outputs(model: Any, named_model: NamedModel) -> None:
    """Give the outputs, which are called Identity:0 and so on, the names of the model."""
    graph = model.graph
    # Outputs come in the order of the sorted names of the dictionary that the function returns.
    new_names = dict(
        zip((output.name for output in graph.output), sorted(named_model.outputs), strict=True)
    )
    for output in graph.output:
        output.name = new_names[output.name]
    for node in graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name in new_names:
                    names[index] = new_names[name]
