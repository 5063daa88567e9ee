"""What a job costs before it runs: parameters, memory, arithmetic, and the share in 16 bits."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ampcore.preflight.layer import Layer, Table, all_layers
from ampcore.spec import JobSpec
from ampcore.spec.optimizer import Adam, AdamW, Momentum, OptimizerSpec, RmsProp, Sgd
from ampcore.spec.precision import Precision

BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2}
SLOT_BYTES: Final = BYTES["float32"]
FLOPS_PER_MULTIPLY_ADD: Final = 2
FLOAT32: Final = Precision()


@dataclass(frozen=True)
class Memory:
    """Bytes in use at the peak of a training step, as an estimate from the layers' shapes.

    Not in it: the data, workspaces of the libraries, and what the allocator wastes.
    """

    weights: int
    casts: int
    """The weights once more in the compute dtype."""
    gradients: int
    optimizer: int
    """Its slots, one number each for a weight: momentum, second moment."""
    ema: int
    activations: int
    """What a batch keeps for its backward pass."""

    @property
    def total(self) -> int:
        """All of it."""
        return sum(asdict(self).values())

    def to_json(self) -> dict[str, int]:
        """The bytes by what they are for, and `total`."""
        return {**asdict(self), "total": self.total}


@dataclass(frozen=True)
class Figures:
    """The size of a job: bytes, and floating-point operations of its matrix products."""

    policy: str
    """`auto` has been settled."""
    parameters: int
    trainable_parameters: int
    networks: dict[str, int]
    """The parameters of each network."""
    flops_per_step: int
    """Forward and backward, about 3 × the forward pass, × batch_size × accumulate."""
    share_in_16_bit: float
    """The share of those FLOPs whose layers compute in 16 bits, from 0 to 1."""
    memory: dict[str, Memory]
    """By policy: the one chosen, and float32 to compare."""

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
        memory = {policy: estimate.to_json() for policy, estimate in self.memory.items()}
        return {**asdict(self), "memory": memory}


def figures(tables: Sequence[Table], spec: JobSpec, policy: str) -> Figures:
    """The figures of networks whose layers have their dtypes under the settled `policy`."""
    plain = [table.under(FLOAT32, "float32") for table in tables]
    products = _products(tables)
    half = _products(tables, half=True)
    examples = spec.data.batch_size * spec.train.accumulate
    return Figures(
        policy=policy,
        parameters=sum(table.parameters for table in tables),
        trainable_parameters=sum(table.trainable for table in tables),
        networks={table.network: table.parameters for table in tables},
        flops_per_step=FLOPS_PER_MULTIPLY_ADD * products * examples,
        share_in_16_bit=half / products if products else 0.0,
        memory={"float32": _memory(plain, spec), policy: _memory(tables, spec)},
    )


def slots(optimizer: OptimizerSpec) -> int:
    """How many numbers an optimizer keeps for each weight, its moving average apart."""
    match optimizer:
        case Sgd():
            return int(optimizer.momentum > 0)
        case Momentum():
            return 1
        case Adam() | AdamW():
            return 2
        case RmsProp():
            return 1 + int(optimizer.momentum > 0)


def _products(tables: Sequence[Table], *, half: bool = False) -> int:
    """Multiply-adds of a training step on one example; with `half`, of the 16-bit layers only."""
    return sum(
        table.work.passes * layer.multiply_adds
        for table in tables
        for layer in table.layers
        if layer.half or not half
    )


def _memory(tables: Sequence[Table], spec: JobSpec) -> Memory:
    batch = spec.data.batch_size
    return Memory(
        weights=sum(_weight_bytes(layer) for layer in all_layers(tables)),
        casts=sum(_cast_bytes(layer) for layer in all_layers(tables)),
        gradients=sum(_gradient_bytes(layer, batch) for layer in all_layers(tables))
        * (2 if spec.train.accumulate > 1 else 1),
        # Slots and averages are float32 whatever the weights are.
        optimizer=SLOT_BYTES
        * sum(slots(_optimizer(spec, table)) * table.trainable for table in tables),
        ema=SLOT_BYTES * sum(table.trainable for table in tables if _optimizer(spec, table).ema),
        activations=sum(
            table.work.forwards * batch * layer.kept * BYTES[layer.compute]
            for table in tables
            for layer in table.layers
        ),
    )


def _optimizer(spec: JobSpec, table: Table) -> OptimizerSpec:
    return spec.optimizers.get(table.network, spec.optimizer)


def _weight_bytes(layer: Layer) -> int:
    return layer.parameters * BYTES[layer.variable]


def _cast_bytes(layer: Layer) -> int:
    return layer.trainable * BYTES[layer.compute] if layer.compute != layer.variable else 0


def _gradient_bytes(layer: Layer, batch: int) -> int:
    """Gradients are unscaled to float32; of a table only the rows that were looked up."""
    if not layer.rows:
        return layer.trainable * BYTES["float32"]
    return batch * math.prod(layer.output_shape) * BYTES["float32"]
