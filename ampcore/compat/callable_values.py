"""Values that a loop may read as an attribute, or call as in older versions of TensorFlow."""

from typing import Any

import numpy as np
import tensorflow as tf

Tensor = Any


class VariableList(list[Any]):
    """A list of variables that returns itself when called: `variables` and `variables()`."""

    def __call__(self) -> "VariableList":
        """The list itself."""
        return self


class CallableTensor(tf.__internal__.types.Tensor):  # type: ignore[misc]
    """A tensor that may also be called: `loss_scale` and `loss_scale()` are the same value.

    A tensor of TensorFlow has no `__call__`, and a subclass of it cannot be passed to operations.
    So this one converts itself, with the methods that TensorFlow has for that, and has all
    attributes and operators of its tensor. It is no `tf.Tensor` for `isinstance`.

    Args:
        tensor: The value.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __call__(self) -> Tensor:
        """The tensor."""
        return self._tensor

    def __getattr__(self, name: str) -> Any:
        """Whatever the tensor has, such as `numpy`."""
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._tensor, name)

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Tensor:
        """The tensor, for operations."""
        return tf.convert_to_tensor(self._tensor, dtype, name=name)

    def __tf_tracing_type__(self, context: Any) -> Any:
        """Its type as an argument of a tf.function."""
        return self._tensor.__tf_tracing_type__(context)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The value, for NumPy."""
        return np.array(self._tensor, dtype)

    def __repr__(self) -> str:
        return repr(self._tensor)

    def __str__(self) -> str:
        return str(self._tensor)

    def __format__(self, spec: str) -> str:
        return format(self._tensor, spec)

    def __hash__(self) -> int:
        return id(self)

    @property
    def dtype(self) -> Any:
        """The dtype of the tensor."""
        return self._tensor.dtype

    @property
    def shape(self) -> Any:
        """The shape of the tensor."""
        return self._tensor.shape


def _forward(name: str) -> Any:
    """A method that calls the operator of this name of the tensor."""

    def operator(self: CallableTensor, *operands: Any) -> Any:
        return getattr(self._tensor, name)(*operands)

    return operator


for _name in (
    *("float", "int", "bool", "index", "neg", "abs", "eq", "ne", "lt", "le", "gt", "ge"),
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv"),
    *("floordiv", "rfloordiv", "mod", "rmod", "pow", "rpow"),
):
    setattr(CallableTensor, f"__{_name}__", _forward(f"__{_name}__"))
