"""LocalRank: which rank of a gang a trainer process of this worker is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from worker.rank_ports import ports_of
from worker.trainer.standby import Standby
from worker.trainer.trainer_process import TrainerProcess


@dataclass
class LocalRank:
    """One rank, and the state of its process."""

    number: int
    cluster: Mapping[str, Any]
    """The document of `ampcore.distributed.cluster.Cluster`."""
    own_ranks: tuple[int, int]
    """Which of the ranks on this worker it is, from 0, and how many there are."""
    process: TrainerProcess | None = None
    outcome: str | None = None
    """How it has ended: `succeeded`, `failed` or `stopped`; None before."""

    @property
    def state(self) -> str:
        """Its outcome; before that, whether its process is ready."""
        is_ready = self.process is not None and self.process.ready is not None
        return self.outcome or ("running" if is_ready else "starting")

    def start(self, standby: Standby) -> TrainerProcess:
        """Request its process."""
        self.process = standby.request_rank(ports_of(self.cluster, standby.hardware()))
        return self.process

    def assignment(self) -> dict[str, Any]:
        """The part of its trainer's assignment that describes the gang."""
        return {"cluster": dict(self.cluster), "own_ranks": list(self.own_ranks)}

    def describe(self) -> dict[str, Any]:
        """Its row in the views of the job."""
        return {"rank": self.number, "state": self.state, "device": self._device()}

    def _device(self) -> str | None:
        ready = self.process.ready if self.process is not None else None
        reported_devices = (ready or {}).get("hardware", {}).get("devices")
        devices = [device for device in reported_devices or () if isinstance(device, dict)]
        accelerators = [device for device in devices if device.get("kind") != "cpu"]
        local_rank = self.cluster["local_rank"]
        rank_devices = accelerators[local_rank : local_rank + 1] or devices[:1]
        return str(rank_devices[0].get("name")) if rank_devices else None
