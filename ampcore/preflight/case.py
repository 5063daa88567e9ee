"""Case: a job and where it may run, as every check of the preflight looks at it."""

from collections.abc import Iterator
from dataclasses import dataclass

from ampcore.preflight.layer import Layer, Table, all_layers
from ampcore.spec import JobSpec
from ampcore.spec.devices import DeviceFacts
from ampcore.spec.optimizer import OptimizerSpec
from ampcore.spec.precision import COMPUTE_DTYPE


@dataclass(frozen=True)
class Case:
    """A job under a settled policy."""

    spec: JobSpec
    policy: str
    tables: tuple[Table, ...] | None
    """None: the layers are known only when the job starts."""
    devices: tuple[DeviceFacts, ...] = ()
    """What it would run on, each kind of device once."""
    machines: int = 0
    """The machines that were looked at; 0: nobody knows yet where it will run."""
    total_steps: int | None = None

    @property
    def layers(self) -> list[Layer]:
        """Every layer that is known."""
        return all_layers(self.tables or ())

    @property
    def half_dtypes(self) -> tuple[str, ...]:
        """The 16-bit dtypes that some layer computes in; without layers, that were asked for."""
        if self.tables is not None:
            found = {layer.compute for layer in self.layers}
        else:
            asked = (override.dtype for override in self.spec.precision.overrides)
            found = {COMPUTE_DTYPE[self.policy], *asked}
        return tuple(sorted(found - {"float32"}))

    @property
    def optimizers(self) -> Iterator[tuple[str, OptimizerSpec, tuple[Table, ...] | None]]:
        """Each optimizer with its pointer and the networks that it updates, if they are known."""
        own = self.spec.optimizers
        for name, optimizer in own.items():
            yield f"/optimizers/{name}", optimizer, self._named({name})
        others = self._named({table.network for table in self.tables or ()} - own.keys())
        if others is None or others:
            yield "/optimizer", self.spec.optimizer, others

    def _named(self, names: set[str]) -> tuple[Table, ...] | None:
        if self.tables is None:
            return None
        return tuple(table for table in self.tables if table.network in names)
