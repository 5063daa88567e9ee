"""Joins the events of a trace with what is known of the executed operations: one row for each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from ampcore.phases import Phase, layer_of, phase_of
from ampcore.profile.executed import (
    NO_FLOAT,
    SIXTEEN_BIT,
    UNKNOWN,
    ExecutedOperation,
    is_matrix_type,
    short_name,
)
from ampcore.profile.gpu_kernels import input_dtype, states_cores, uses_tensor_cores
from ampcore.profile.hlo import Program
from ampcore.profile.trace import EventKind, Trace, TraceEvent

PS: Final = 1e-12
"""Seconds in a picosecond."""
OUTSIDE_STEPS: Final = (Phase.EVALUATION, Phase.CHECKPOINT)
"""Spans whose operations are no part of a training step."""
TENSOR_CORE_DTYPES: Final = (*SIXTEEN_BIT, "float8", "tf32")


@dataclass(frozen=True)
class ProfiledLayer:
    """A layer of the model: the dtype that its policy promises, and the sizes of its matrices."""

    path: str
    compute_dtype: str
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class ProfileContext:
    """What a profile knows of the run besides the trace.

    Attributes:
        policy: The name of the run's policy.
        promised_dtype: The 16-bit dtype that it promises; None for float32.
        engine: The engine that executed the steps.
        device: The kind of the device, and its name.
        fast_dtypes: The dtypes that the device has instructions for.
        first_step: The first profiled step.
        steps: How many were profiled.
        wall_s: Seconds between the start of the first and the end of the last step.
        layers: The layers of all networks.
        operations: What TensorFlow executes in a step; empty for an engine of XLA.
    """

    policy: str
    promised_dtype: str | None
    engine: str
    device: Mapping[str, str]
    fast_dtypes: Sequence[str]
    first_step: int
    steps: int
    wall_s: float
    layers: Sequence[ProfiledLayer] = ()
    operations: Sequence[ExecutedOperation] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            **vars(self),
            "layers": [vars(layer) for layer in self.layers],
            "operations": [operation.to_json() for operation in self.operations],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """What `to_json` returned."""
        layers = [
            ProfiledLayer(layer["path"], layer["compute_dtype"], tuple(layer["sizes"]))
            for layer in document["layers"]
        ]
        operations = [
            ExecutedOperation.from_json(operation) for operation in document["operations"]
        ]
        return cls(**{**document, "layers": layers, "operations": operations})


@dataclass
class OperationRow:
    """All calls of one operation in the profiled steps; times in seconds.

    Attributes:
        name: Of the operation, with its scopes; of fused ones all, as `dense/MatMul+BiasAdd`.
        type: Of the operation, or the opcode of its HLO instruction.
        phase: Of the training.
        layer: The path of its layer; None outside of all layers.
        dtype: Of its inputs.
        computed_in: In which dtype it computes: float32 where a kernel converts 16-bit numbers.
        is_matrix: Whether it multiplies matrices.
        is_cast: Whether it only converts values.
        casts_back: Whether 16-bit inputs were converted to float32 for it.
        promised: Whether the policy of its layer promises 16 bit.
        tensor_cores: Whether one of its kernels used Tensor Cores; None on other devices, and
            where the names of the kernels do not tell.
        kernels: The names of its kernels on a GPU.
    """

    name: str
    type: str
    phase: Phase
    layer: str | None
    dtype: str
    computed_in: str
    is_matrix: bool
    is_cast: bool
    casts_back: bool
    promised: bool
    tensor_cores: bool | None = None
    calls: int = 0
    total_s: float = 0.0
    self_s: float = 0.0
    kernels: set[str] = field(default_factory=set)

    @property
    def eligible(self) -> bool:
        """Whether 16-bit hardware could compute it."""
        return self.is_matrix and (self.promised or self.dtype in TENSOR_CORE_DTYPES)

    @property
    def in_16_bit(self) -> bool:
        """Whether it truly computes in 16 bit."""
        return self.computed_in in SIXTEEN_BIT

    def add(self, event: TraceEvent) -> None:
        """Add a call."""
        self.calls += 1
        self.total_s += event.duration_ps * PS
        self.self_s += event.self_ps * PS


class OperationTable:
    """The operations of a trace.

    Args:
        trace: The events.
        context: What else is known.
    """

    def __init__(self, trace: Trace, context: ProfileContext) -> None:
        self._context = context
        self._programs = {number: Program(data) for number, data in trace.programs.items()}
        self._executed = {operation.name: operation for operation in context.operations}
        self._layers = {layer.path: layer for layer in context.layers}
        self._on_gpu = trace.on_gpu
        self._rows: dict[tuple[str, str, Phase], OperationRow] = {}
        outside = [
            (Phase(span.name), span.start_ps, span.start_ps + span.duration_ps)
            for span in trace.events
            if span.kind is EventKind.SPAN and span.name in OUTSIDE_STEPS
        ]
        for event in trace.events:
            if event.kind is not EventKind.SPAN and self._is_used(event):
                phase = next((name for name, *span in outside if _is_in(event, *span)), None)
                self._add(event, phase)

    @property
    def rows(self) -> list[OperationRow]:
        """All operations, the longest ones first."""
        return sorted(self._rows.values(), key=lambda row: (-row.self_s, row.name))

    def _is_used(self, event: TraceEvent) -> bool:
        # Where there is a GPU the host only launches kernels.
        return not self._on_gpu or event.kind is EventKind.KERNEL

    def _add(self, event: TraceEvent, phase: Phase | None) -> None:
        executed = self._find(event)
        if executed is None:
            return
        phase = phase or phase_of(executed.name)
        key = executed.name or event.name, executed.type, phase
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._new_row(event, executed, phase)
        row.add(event)
        if event.kind is EventKind.KERNEL:
            _add_kernel(row, event.name)

    def _find(self, event: TraceEvent) -> ExecutedOperation | None:
        """What an event executes; None for the control flow of a program."""
        if event.kind is EventKind.OPERATION:
            return self._executed.get(short_name(event.name)) or _unknown(event.name, event.type)
        name = event.name if event.kind is EventKind.THUNK else event.operation
        program = self._programs.get(event.program_id) if event.program_id is not None else None
        if program is not None:
            return program.operation(name)
        operation = self._executed.get(short_name(name))
        return operation or _unknown(name or event.name, event.type or "kernel")

    def _new_row(
        self, event: TraceEvent, executed: ExecutedOperation, phase: Phase
    ) -> OperationRow:
        layer = layer_of(executed.name, self._layers)
        return OperationRow(
            name=executed.title or event.name,
            type=executed.type,
            phase=phase,
            layer=layer,
            dtype=executed.dtype,
            computed_in=self._computed_in(executed),
            is_matrix=executed.is_matrix,
            is_cast=executed.is_cast,
            casts_back=executed.casts_back,
            promised=self._is_promised(executed, layer, phase),
        )

    def _computed_in(self, executed: ExecutedOperation) -> str:
        if not executed.is_matrix or executed.dtype not in SIXTEEN_BIT:
            return executed.dtype
        is_native = executed.native is not False and executed.dtype in self._context.fast_dtypes
        return executed.dtype if is_native else "float32"

    def _is_promised(self, executed: ExecutedOperation, layer: str | None, phase: Phase) -> bool:
        if self._context.promised_dtype is None or not executed.is_matrix:
            return False
        if phase not in (Phase.FORWARD, Phase.BACKWARD, Phase.OTHER):
            return False
        if layer is not None:
            return self._layers[layer].compute_dtype in SIXTEEN_BIT
        return executed.casts_back or executed.dtype in SIXTEEN_BIT


def _add_kernel(row: OperationRow, kernel: str) -> None:
    """Record a kernel: its name shows the dtype and the Tensor Cores that are really used."""
    row.kernels.add(kernel)
    if uses_tensor_cores(kernel):
        row.tensor_cores = row.is_matrix = True
    elif row.is_matrix and row.tensor_cores is None and states_cores(kernel):
        row.tensor_cores = False
    stated = input_dtype(kernel)
    if row.is_matrix and stated is not None and (uses_tensor_cores(kernel) or "gemm" in kernel):
        row.computed_in = stated
    if row.dtype in (UNKNOWN, NO_FLOAT) and stated is not None:
        row.dtype = row.computed_in = stated


def _unknown(name: str, operation_type: str) -> ExecutedOperation:
    return ExecutedOperation(
        short_name(name), operation_type, is_matrix=is_matrix_type(operation_type)
    )


def _is_in(event: TraceEvent, start_ps: int, end_ps: int) -> bool:
    return start_ps <= event.start_ps < end_ps


def total_s(rows: Iterable[OperationRow]) -> float:
    """The time of operations, without that of operations inside of them."""
    return sum(row.self_s for row in rows)
