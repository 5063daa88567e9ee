"""The protocol buffers of TensorFlow's profiler, loaded without starting TensorFlow.

`import tensorflow` takes seconds of CPU time, which the process that reads a trace would take from
the training beside it. The generated modules need only the protobuf library.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

XPLANE: Final = "tensorflow.tsl.profiler.protobuf.xplane_pb2"
HLO: Final = "tensorflow.compiler.xla.service.hlo_pb2"
CONVERTER: Final = "tensorflow.python.profiler.internal._pywrap_profiler_plugin"


def xplane_pb2() -> Any:
    """The messages of a trace (XSpace, XPlane, XLine, XEvent)."""
    return _load(XPLANE)


def hlo_pb2() -> Any:
    """The messages of a program of XLA (HloProto)."""
    return _load(HLO)


def converter() -> Any:
    """The converter of traces for the tools of XProf; its native code may abort the process."""
    return _load(CONVERTER)


def _load(name: str) -> Any:
    """Import a module of TensorFlow; its packages stay empty unless TensorFlow is imported."""
    if not isinstance(getattr(sys.modules.get("tensorflow"), "__version__", None), str):
        _add_empty_packages(name)
    return importlib.import_module(name)


def _add_empty_packages(name: str) -> None:
    spec = importlib.util.find_spec("tensorflow") if "tensorflow" not in sys.modules else None
    root = (
        Path(spec.origin).parent
        if spec is not None and spec.origin is not None
        else Path(sys.modules["tensorflow"].__path__[0])
    )
    for package in _packages(name):
        if package not in sys.modules:
            module = ModuleType(package)
            folder = root.joinpath(*package.split(".")[1:])
            module.__path__ = [str(folder)]
            sys.modules[package] = module


def _packages(name: str) -> list[str]:
    """The packages above the module, and those that hlo_pb2 imports from."""
    parts = name.split(".")[:-1]
    above = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return [*above, "tensorflow.compiler", "tensorflow.compiler.xla"]
