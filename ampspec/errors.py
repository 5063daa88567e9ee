"""The errors that end a training run, each with the reason code that is stored with the job."""

from pathlib import Path
from typing import ClassVar

from ampspec.jobs import Reason


class TrainingError(Exception):
    """A run cannot continue; the message says what to do."""

    reason: ClassVar[Reason] = Reason.INTERNAL_ERROR


class InvalidData(TrainingError):
    """The data is missing, unreadable, or unsuitable for the job."""

    reason = Reason.INVALID_DATA

    def __init__(self, source: str, field: str | None, *, expected: str, received: str) -> None:
        self.source, self.field = source, field
        self.expected, self.received = expected, received
        location = f"{source}, {field}" if field else source
        super().__init__(f"{location}: expected {expected}; received {received}.")


class InvalidModel(TrainingError):
    """The model cannot be built for this data; `field` names the part of the spec to change."""

    reason = Reason.INVALID_SPEC

    def __init__(self, field: str, *, expected: str, received: str) -> None:
        self.field, self.expected, self.received = field, expected, received
        super().__init__(f"{field}: expected {expected}; received {received}.")


class CodeFailed(TrainingError):
    """The code of a bundle raised an error, or has no such function."""

    reason = Reason.CODE_FAILED


class UnsupportedDevice(TrainingError):
    """The device that the job asks for is not available."""

    reason = Reason.UNSUPPORTED_DEVICE


class NonFiniteLoss(TrainingError):
    """Without a finite check, too many losses or gradients in a row were NaN or infinite."""

    reason = Reason.NON_FINITE_LOSS


class NonFiniteResult(TrainingError):
    """The trained weights or the last loss are not finite."""

    reason = Reason.NON_FINITE_RESULT


class SkipBudgetExceeded(TrainingError):
    """Too many steps in a row were skipped."""

    reason = Reason.SKIP_BUDGET_EXCEEDED


class OutOfMemory(TrainingError):
    """The model, its activations or the data do not fit into the device's memory."""

    reason = Reason.OUT_OF_MEMORY


class UnreadableCheckpoint(TrainingError):
    """A file is damaged or not a checkpoint."""

    reason = Reason.INVALID_CHECKPOINT

    def __init__(self, file: Path, *, expected: str, received: str) -> None:
        self.file, self.expected, self.received = file, expected, received
        super().__init__(f"{file}: expected {expected}; received {received}.")


class UnreadableWeights(TrainingError):
    """A file is not a safetensors file of weights, or is damaged."""

    reason = Reason.INVALID_WEIGHTS

    def __init__(self, file: Path, *, expected: str, received: str) -> None:
        self.file, self.expected, self.received = file, expected, received
        super().__init__(f"{file}: expected {expected}; received {received}.")


class UnusableWeights(TrainingError):
    """The weights to start from are readable, but the model cannot take them."""

    reason = Reason.INVALID_WEIGHTS

    def __init__(self, field: str, *, expected: str, received: str) -> None:
        self.field, self.expected, self.received = field, expected, received
        super().__init__(f"{field}: expected {expected}; received {received}.")


class IncompatibleCheckpoint(TrainingError):
    """A checkpoint is intact but belongs to another job."""

    reason = Reason.INVALID_CHECKPOINT


class CheckpointFailed(TrainingError):
    """A checkpoint could not be saved; earlier checkpoints are unchanged.

    `free_bytes` is None if unknown.
    """

    reason = Reason.CHECKPOINT_FAILED

    def __init__(
        self, folder: Path, size_bytes: int, free_bytes: int | None, error: OSError
    ) -> None:
        self.folder, self.size_bytes, self.free_bytes = folder, size_bytes, free_bytes
        free = "an unknown number" if free_bytes is None else f"{free_bytes:,}"
        super().__init__(
            f"Cannot save a checkpoint in {folder}: {error.strerror or error}; it needs "
            f"{size_bytes:,} bytes, and {free} are free."
        )


class RankDisconnected(TrainingError):
    """Another rank of the job ended without reporting an error, hangs, or cannot be reached.

    `ranks` are the ranks known to be lost.
    """

    reason = Reason.RANK_LOST

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        self.ranks = ranks
        super().__init__(message)


class AddressInUse(RankDisconnected):
    """Another process uses the port that this rank should listen on."""

    reason = Reason.PORT_TAKEN


class RanksDiffer(TrainingError):
    """The ranks of a job no longer have the same weights, or started with other settings."""

    reason = Reason.RANKS_DIFFER


class RankFailed(TrainingError):
    """Another rank of the job failed, for the reason in `reason`."""

    def __init__(self, rank: int, reason: Reason, message: str) -> None:
        self.rank = rank
        self.reason = reason  # type: ignore[misc]  # the reason of the other rank
        super().__init__(f"Rank {rank} failed: {message}")
