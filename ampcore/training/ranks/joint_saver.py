"""Checkpoints of a run whose ranks have different rows of its tables: all of them save together."""

from typing import Protocol

from ampcore.checkpoint import Checkpoint
from ampcore.checkpoint.writer import CheckpointWriter
from ampcore.distributed import Communicator
from ampspec.telemetry import Event, EventType


class Saver(Protocol):
    """Saves checkpoints; see `CheckpointSaver`."""

    saved_steps: int | None

    @property
    def is_enabled(self) -> bool:
        """Whether there is a folder to save to."""

    def is_due(self) -> bool:
        """Whether the interval has passed."""

    def save(self, checkpoint: Checkpoint) -> Event:
        """Save a checkpoint."""


class JointSaver:
    """Rank 0 saves what all ranks send; when it is due, and what is saved, are the same for all.

    Args:
        saver: That of this rank; only rank 0's has a folder.
        communicator: The ranks.
    """

    def __init__(self, saver: Saver, communicator: Communicator) -> None:
        self._saver, self._communicator = saver, communicator
        self._is_enabled: bool = communicator.broadcast_object(saver.is_enabled)
        self.saved_steps: int | None = None
        """The number of steps in the newest checkpoint; None without one."""

    @property
    def is_enabled(self) -> bool:
        """Whether rank 0 has a folder to save to."""
        return self._is_enabled

    def is_due(self) -> bool:
        """Whether the interval of rank 0 has passed."""
        return bool(self._communicator.broadcast_object(self._saver.is_due()))

    def save(self, checkpoint: Checkpoint) -> Event:
        """Save a checkpoint whose tables are `WholeTable`; all ranks call it together."""
        tables = CheckpointWriter.from_checkpoint(checkpoint).tables
        event: Event | None = None
        try:
            if self._communicator.rank == 0:
                event = self._saver.save(checkpoint)
        finally:
            # The ranks send all pieces, even if rank 0 can no longer write them.
            for table in tables:
                table.finish()
        facts = None if event is None else [event.type.value, event.step, event.data]
        kind, step, data = self._communicator.broadcast_object(facts)
        event = event or Event(EventType(kind), step, data)
        if event.type == EventType.CHECKPOINT_SAVED:
            self.saved_steps = checkpoint.manifest.step
        return event
