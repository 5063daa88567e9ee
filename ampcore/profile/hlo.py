"""Reads the programs that XLA executes (HLO, after all passes): the dtype of every instruction.

On a CPU XLA computes many 16-bit operations in float32: the program then has `convert`
instructions around them, whatever the policy of the layer says.

Source: openxla/xla, xla/service/hlo.proto and xla/xla_data.proto.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from ampcore.profile.executed import FLOATS, NO_FLOAT, SIXTEEN_BIT, ExecutedOperation
from ampcore.profile.protos import hlo_pb2

MATRIX_OPCODES: Final = ("dot", "convolution", "scaled-dot", "ragged-dot")
MATRIX_CALLS: Final = ("gemm", "conv", "matmul", "dot", "fmha")
"""Parts of the targets of calls into libraries that multiply matrices."""
CONTROL: Final = ("while", "conditional", "call", "async-start", "async-done", "tuple", "parameter")
"""Instructions whose time is that of others."""
PASS_THROUGH: Final = ("bitcast", "copy", "transpose", "reshape", "broadcast", "slice", "pad")
"""Instructions that only move values."""
MAX_FUSED: Final = 4
"""How many fused operations the name of a product has."""
DEPTH: Final = 4
"""How many instructions a cast may be away from the operation that it is for."""

_DTYPES: Final = {
    10: "float16",
    11: "float32",
    12: "float64",
    16: "bfloat16",
    19: "float8",
    20: "float8",
    23: "float8",
    24: "float8",
    25: "float8",
}
"""By the number of xla.PrimitiveType."""


class Program:
    """One HLO module, as it is executed."""

    def __init__(self, data: bytes) -> None:
        proto = hlo_pb2().HloProto()
        proto.ParseFromString(data)
        self._computations = {
            computation.id: computation for computation in proto.hlo_module.computations
        }
        self._by_id = {
            instruction.id: instruction
            for computation in self._computations.values()
            for instruction in computation.instructions
        }
        self._by_name = {instruction.name: instruction for instruction in self._by_id.values()}

    def operation(self, instruction_name: str) -> ExecutedOperation | None:
        """An instruction by its name; None for control flow and for an unknown name."""
        instruction = self._by_name.get(instruction_name)
        if instruction is None or instruction.opcode in CONTROL:
            return None
        matrix = self._matrix(instruction)
        name = self._operation_name(matrix or instruction) or self._operation_name(instruction)
        return ExecutedOperation(
            name=name,
            type=instruction.custom_call_target or instruction.opcode,
            dtype=self._dtype(matrix or instruction, is_matrix=matrix is not None),
            is_matrix=matrix is not None,
            is_cast=self._is_cast(instruction),
            casts_back=matrix is not None and self._casts_back(matrix),
            fused=() if matrix is None else self._fused(instruction, matrix, name),
        )

    def _fused(self, instruction: Any, matrix: Any, name: str) -> tuple[str, ...]:
        """A product and the named operations that XLA computes with it; () without those.

        A call into a library has the name of its last operation, as of the bias that it adds.
        """
        last = _last_part(name)
        product = last if is_product(last) else _product_of(matrix)
        parts = (_last_part(op.metadata.op_name) for op in self._with_called(instruction))
        fused = dict.fromkeys(part for part in (last, *parts) if part and not is_product(part))
        return (product, *list(fused)[:MAX_FUSED]) if name and fused else ()

    def _matrix(self, instruction: Any) -> Any:
        """The matrix product that an instruction is or contains, else None."""
        for op in self._with_called(instruction):
            if op.opcode in MATRIX_OPCODES:
                return op
            if op.opcode == "custom-call" and any(
                part in op.custom_call_target.lower() for part in MATRIX_CALLS
            ):
                return op
        return None

    def _with_called(self, instruction: Any) -> Iterator[Any]:
        yield instruction
        if instruction.opcode != "fusion":
            return
        for number in instruction.called_computation_ids:
            yield from self._computations[number].instructions

    def _dtype(self, instruction: Any, *, is_matrix: bool) -> str:
        """The dtype of the inputs of a matrix product, else the widest float that is computed."""
        if is_matrix:
            dtypes = [_dtype(self._by_id[number]) for number in instruction.operand_ids[:2]]
        else:
            dtypes = [
                _dtype(op) for op in self._with_called(instruction) if op.opcode != "parameter"
            ]
        floats = [dtype for dtype in dtypes if dtype in FLOATS]
        return max(floats, key=FLOATS.index, default=NO_FLOAT)

    def _is_cast(self, instruction: Any) -> bool:
        moved = {"convert", "parameter", "constant", *PASS_THROUGH}
        opcodes = {op.opcode for op in self._with_called(instruction)} - {"fusion"}
        return "convert" in opcodes and opcodes <= moved

    def _casts_back(self, matrix: Any) -> bool:
        """Whether an input of a product in float32 was converted from 16 bit."""
        if self._dtype(matrix, is_matrix=True) not in ("float32", "float64"):
            return False
        return any(self._is_from_16_bit(number, DEPTH) for number in matrix.operand_ids[:2])

    def _is_from_16_bit(self, number: int, depth: int) -> bool:
        instruction = self._by_id.get(number)
        if instruction is None or depth == 0:
            return False
        if instruction.opcode == "parameter":
            return any(
                self._is_from_16_bit(outer, depth - 1) for outer in self._arguments.get(number, ())
            )
        if any(self._converts_from_16_bit(op) for op in self._with_called(instruction)):
            return True
        if instruction.opcode not in PASS_THROUGH:
            return False
        return any(self._is_from_16_bit(operand, depth - 1) for operand in instruction.operand_ids)

    def _converts_from_16_bit(self, instruction: Any) -> bool:
        return instruction.opcode == "convert" and any(
            _dtype(self._by_id[number]) in SIXTEEN_BIT for number in instruction.operand_ids
        )

    @cached_property
    def _arguments(self) -> Mapping[int, list[int]]:
        """For the parameters of fusions: what is passed for them."""
        arguments: dict[int, list[int]] = {}
        for fusion in self._by_id.values():
            if fusion.opcode != "fusion":
                continue
            for called in fusion.called_computation_ids:
                for instruction in self._computations[called].instructions:
                    if instruction.opcode == "parameter" and instruction.parameter_number < len(
                        fusion.operand_ids
                    ):
                        arguments.setdefault(instruction.id, []).append(
                            fusion.operand_ids[instruction.parameter_number]
                        )
        return arguments

    def _operation_name(self, instruction: Any) -> str:
        """The name of the TensorFlow operation; of the next one if the compiler made it up."""
        for op in self._with_called(instruction):
            if op.metadata.op_name:
                return str(op.metadata.op_name)
        for number in instruction.operand_ids:
            if (operand := self._by_id.get(number)) is not None and operand.metadata.op_name:
                return str(operand.metadata.op_name)
        return ""


def _last_part(name: str) -> str:
    """The operation at the end of a name, without the number that tells it from others."""
    last = name.rpartition("/")[2]
    kind, separator, number = last.rpartition("_")
    return kind if separator and number.isdigit() else last


def is_product(operation: str) -> bool:
    """Whether an operation with this name multiplies matrices."""
    lowered = operation.lower()
    return any(part in lowered for part in (*MATRIX_CALLS, "einsum", "attention"))


def _product_of(matrix: Any) -> str:
    kind = matrix.custom_call_target.lower() or matrix.opcode
    return "Conv" if "conv" in kind else "MatMul"


def _dtype(instruction: Any) -> str:
    return _DTYPES.get(instruction.shape.element_type, NO_FLOAT)
