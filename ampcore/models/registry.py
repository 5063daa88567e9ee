"""Which function builds which kind of model."""

from collections.abc import Callable
from typing import Any

from ampcore.spec.model import ModelSpec

Shape = tuple[int, ...]
Builder = Callable[[Any, Shape, int, Any], Any]
"""(the spec's model part, input shape without batch, classes, dtype policy) to a keras.Model."""

BUILDERS: dict[str, Builder] = {}


def register(kind: str) -> Callable[[Builder], Builder]:
    """Make the decorated function the builder of `kind`."""

    def add(builder: Builder) -> Builder:
        BUILDERS[kind] = builder
        return builder

    return add


def build(spec: ModelSpec, input_shape: Shape, classes: int, policy: Any) -> Any:
    """A keras.Model from float32 inputs of `input_shape` to float32 logits of `classes`.

    Every layer gets `policy` as its dtype, except the last, "predictions", which is float32.
    Raises InvalidModel when the model cannot take such inputs.
    """
    return BUILDERS[spec.kind](spec, input_shape, classes, policy)
