"""What is known of an executed operation: its dtype, whether it multiplies matrices, its sizes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

SIXTEEN_BIT: Final = ("float16", "bfloat16")
FLOATS: Final = ("float8", *SIXTEEN_BIT, "tf32", "float32", "float64")
NO_FLOAT: Final = "other"
"""The dtype of operations without floating-point numbers: indices, shapes, random bits."""
UNKNOWN: Final = "unknown"

CALLS: Final = ("PartitionedCall/", "StatefulPartitionedCall/")
"""What TensorFlow puts before the names of the operations of a called function."""

MATRIX_TYPES: Final = ("MatMul", "Conv2D", "Conv3D", "DepthwiseConv", "Einsum", "CudnnRNN")
"""Parts of the types of TensorFlow's operations that multiply matrices; a convolution does too."""
NOT_MATRIX_TYPES: Final = ("ConvertTo",)


@dataclass(frozen=True)
class ExecutedOperation:
    """One operation of the program that a device executes, after all rewrites by the compiler.

    Attributes:
        name: Its name, with the scopes of phase and layer; "" if the compiler made it up.
        type: Of the operation, or the opcode of an HLO instruction.
        dtype: In which it computes.
        is_matrix: Whether it multiplies matrices, which Tensor Cores and oneDNN do in 16 bit.
        is_cast: Whether it does nothing but convert values to another dtype.
        casts_back: Whether an input was 16 bit wide and has been converted to float32 for it.
        native: Whether the kernel computes in its dtype; False where it converts every number to
            float32 and back. None: decided by the kernel's name.
        fused: What one kernel computes, in order, as ("MatMul", "BiasAdd", "Relu"); the compiler
            names it after the last of them. () where it is one operation.
    """

    name: str
    type: str
    dtype: str = UNKNOWN
    is_matrix: bool = False
    is_cast: bool = False
    casts_back: bool = False
    native: bool | None = None
    fused: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name, with all operations that were fused in place of the last one."""
        if not self.fused:
            return self.name
        scope, separator, _ = self.name.rpartition("/")
        return f"{scope}{separator}{'+'.join(self.fused)}"

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """What `to_json` returned."""
        return cls(**{**document, "fused": tuple(document.get("fused", ()))})


def is_matrix_type(operation_type: str) -> bool:
    """Whether operations of TensorFlow with this type multiply matrices."""
    return any(part in operation_type for part in MATRIX_TYPES) and not any(
        part in operation_type for part in NOT_MATRIX_TYPES
    )


def product_type(operation_type: str) -> str:
    """The product that operations of this type compute: `MatMul` of `_MklNativeFusedMatMul`."""
    return next((part for part in MATRIX_TYPES if part in operation_type), operation_type)


def short_name(name: str) -> str:
    """An operation's name without the parts that differ between two calls of one function."""
    for prefix in CALLS:
        name = name.removeprefix(prefix)
    parts = name.split("/")
    return "/".join(part for part in parts if not (part[:1] == "_" and part[1:].isdigit()))
