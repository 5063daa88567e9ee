"""One rank of a gang on this worker: its process, and how it ended."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ampspec.telemetry.frames import Frame
from worker.trainer.frame_validator import FINAL_FRAMES
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
    last: Frame | None = None
    """Its final frame."""
    state: str = "starting"
    ready_by: float = math.inf

    def assignment(self) -> dict[str, Any]:
        """The part of its trainer's assignment that describes the gang."""
        return {"cluster": dict(self.cluster), "own_ranks": list(self.own_ranks)}

    def require_process(self) -> TrainerProcess:
        """Its process, once it is started."""
        if self.process is None:
            raise RuntimeError(f"rank {self.number} has no process")
        return self.process

    def add(self, frames: Sequence[Frame]) -> None:
        """Keep the final frame; rank 0 alone reports steps and events."""
        for frame in frames:
            if frame.type in FINAL_FRAMES:
                self.last = frame

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
