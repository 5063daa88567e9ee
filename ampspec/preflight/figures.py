"""Estimates parameters, memory, FLOPs and the 16-bit share of a job before it runs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ampspec.objectives.optimizer import Optimizer
from ampspec.precision.precision import Precision
from ampspec.preflight.layer_table import LayerRow, LayerTable, all_layers
from ampspec.training.run import RunSpec

BYTES: Final = {
    **dict.fromkeys(("bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
    "string": 24,  # the size of the object; long strings need more
}
"""Bytes per element, for every dtype of a Keras layer."""
FLOAT8_BYTES: Final = 1
SLOT_BYTES: Final = BYTES["float32"]
FLOPS_PER_MULTIPLY_ADD: Final = 2
FLOAT32: Final = Precision()


@dataclass(frozen=True)
class Memory:
    """The peak memory of a training step in bytes, estimated from the layers' shapes.

    It excludes the data, library workspaces and the overhead of the allocator.
    """

    weights: int
    casts: int
    """Copies of the weights in the compute dtype."""
    gradients: int
    optimizer: int
    """The optimizer's variables, such as momentum and second moment: one number per weight each."""
    ema: int
    activations: int
    """The activations that are saved for the backward pass."""

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(asdict(self).values())

    def to_json(self) -> dict[str, int]:
        """The bytes of each part, and `total`."""
        return {**asdict(self), "total": self.total}


@dataclass(frozen=True)
class Figures:
    """The size of a job: bytes, and floating-point operations of its matrix products."""

    policy: str
    """The resolved policy: never `auto`."""
    parameters: int
    trainable_parameters: int
    networks: dict[str, int]
    """The parameters of each network."""
    flops_per_step: int
    """Forward and backward, about 3 × the forward pass, × batch_size × accumulate."""
    share_in_16_bit: float
    """The share of those FLOPs in 16 or fewer bits, from 0 to 1."""
    share_in_8_bit: float
    """The share of those FLOPs in float8, from 0 to 1; parts of an attention are not counted."""
    memory: dict[str, Memory]
    """By policy: the policy of the job, and float32 to compare."""

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
        memory = {policy: estimate.to_json() for policy, estimate in self.memory.items()}
        return {**asdict(self), "memory": memory}


def figures(tables: Sequence[LayerTable], spec: RunSpec, policy: str) -> Figures:
    """The figures of networks whose layers have the dtypes of the resolved `policy`."""
    plain = [table.with_policy(FLOAT32, "float32") for table in tables]
    products = _multiply_adds(tables)
    half = _multiply_adds(tables, half=True)
    examples = spec.data.batch_size * spec.train.accumulate
    return Figures(
        policy=policy,
        parameters=sum(table.parameters for table in tables),
        trainable_parameters=sum(table.trainable for table in tables),
        networks={table.network: table.parameters for table in tables},
        flops_per_step=FLOPS_PER_MULTIPLY_ADD * products * examples,
        share_in_16_bit=half / products if products else 0.0,
        share_in_8_bit=_float8_multiply_adds(tables) / products if products else 0.0,
        memory={"float32": _memory(plain, spec), policy: _memory(tables, spec)},
    )


def _multiply_adds(tables: Sequence[LayerTable], *, half: bool = False) -> int:
    """Multiply-adds of a training step on one example; with `half`, of the 16-bit layers only."""
    return sum(
        table.pass_counts.passes * layer.multiply_adds
        for table in tables
        for layer in table.layers
        if layer.half or not half
    )


def _float8_multiply_adds(tables: Sequence[LayerTable]) -> float:
    return sum(
        table.pass_counts.passes * layer.multiply_adds * layer.float8_share
        for table in tables
        for layer in table.layers
    )


def _memory(tables: Sequence[LayerTable], spec: RunSpec) -> Memory:
    batch = spec.data.batch_size
    return Memory(
        weights=sum(_weight_bytes(layer) for layer in all_layers(tables)),
        casts=sum(_cast_bytes(layer) for layer in all_layers(tables)),
        gradients=sum(_gradient_bytes(layer, batch) for layer in all_layers(tables))
        * (2 if spec.train.accumulate > 1 else 1),
        # Slots and averages are float32 whatever the dtype of the weights.
        optimizer=SLOT_BYTES
        * sum(_optimizer(spec, table).slots * table.trainable for table in tables),
        ema=SLOT_BYTES * sum(table.trainable for table in tables if _optimizer(spec, table).ema),
        activations=sum(
            table.pass_counts.forwards
            * batch
            * layer.saved_activations
            * BYTES[layer.compute_dtype]
            for table in tables
            for layer in table.layers
        ),
    )


def _optimizer(spec: RunSpec, table: LayerTable) -> Optimizer:
    return spec.optimizers.get(table.network, spec.optimizer)


def _weight_bytes(layer: LayerRow) -> int:
    return layer.parameters * BYTES[layer.variable_dtype]


def _cast_bytes(layer: LayerRow) -> int:
    if layer.float8_share == 1:  # the weights are converted to 8 bits at once
        return layer.trainable * FLOAT8_BYTES
    return (
        layer.trainable * BYTES[layer.compute_dtype]
        if layer.compute_dtype != layer.variable_dtype
        else 0
    )


def _gradient_bytes(layer: LayerRow, batch: int) -> int:
    """Gradients are float32; an embedding table has gradients only for rows looked up."""
    if not layer.looked_up_rows:
        return layer.trainable * BYTES["float32"]
    return batch * math.prod(layer.output_shape) * BYTES["float32"]
