"""The input of every preflight check, a Case, and its output, Findings."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ampspec.objectives.optimizer import Optimizer
from ampspec.precision.devices import DeviceInfo
from ampspec.precision.precision import COMPUTE_DTYPE, DTYPES_OF_16_BITS
from ampspec.preflight.layer_table import LayerRow, LayerTable, all_layers
from ampspec.training.run import RunSpec

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One result of a check, for programs (`code`, `data`) and for people (`message`)."""

    code: str
    severity: Severity
    """error: the job cannot run; warning: it will probably not behave as intended."""
    pointer: str
    """The JSON pointer (RFC 6901) of the part of the spec to change."""
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON values."""

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Case:
    """A job under a resolved policy, and the devices that it may run on."""

    spec: RunSpec
    policy: str
    tables: tuple[LayerTable, ...] | None
    """None: the layers are known only once the job starts."""
    devices: tuple[DeviceInfo, ...] = ()
    """The devices that it may run on, each kind once."""
    machines: int = 0
    """The number of machines with known devices; 0: it is not known where the job will run."""
    total_steps: int | None = None

    @property
    def layers(self) -> list[LayerRow]:
        """Every known layer."""
        return all_layers(self.tables or ())

    @property
    def half_dtypes(self) -> tuple[str, ...]:
        """The 16-bit dtypes of the layers; if layers are unknown, those of the spec."""
        if self.tables is not None:
            dtypes = {layer.compute_dtype for layer in self.layers}
        else:
            requested = (override.dtype for override in self.spec.precision.overrides)
            dtypes = {COMPUTE_DTYPE[self.policy], *requested}
        return tuple(sorted(dtypes & DTYPES_OF_16_BITS))

    @property
    def optimizers(self) -> Iterator[tuple[str, Optimizer, tuple[LayerTable, ...] | None]]:
        """Each optimizer with its JSON pointer and the networks that it updates, if known."""
        by_network = self.spec.optimizers
        for name, optimizer in by_network.items():
            yield f"/optimizers/{name}", optimizer, self._tables_of({name})
        shared_tables = self._tables_of(
            {table.network for table in self.tables or ()} - by_network.keys()
        )
        if shared_tables is None or shared_tables:
            yield "/optimizer", self.spec.optimizer, shared_tables

    def _tables_of(self, networks: set[str]) -> tuple[LayerTable, ...] | None:
        if self.tables is None:
            return None
        return tuple(table for table in self.tables if table.network in networks)
