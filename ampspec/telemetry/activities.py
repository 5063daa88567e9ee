"""What a job with a worker is doing: its activities, in the order in which they begin."""

from enum import StrEnum


class Activity(StrEnum):
    """What a job is doing; it does one thing at a time."""

    DOWNLOADING = "downloading"  # its data, its checkpoint, its code
    STARTING = "starting"  # the process of the trainer
    PREPARING = "preparing"  # the model and the data, in that process
    COMPILING = "compiling"  # tracing and compiling the step, and measuring engines
    TRAINING = "training"
    DIAGNOSING = "diagnosing"  # value ranges, or why a step was skipped
    EVALUATING = "evaluating"
    SAVING = "saving"  # a checkpoint or the model, in that process
    UPLOADING = "uploading"  # files that the worker stores after the training


OF_TRAINER = frozenset(
    {
        Activity.COMPILING,
        Activity.TRAINING,
        Activity.DIAGNOSING,
        Activity.EVALUATING,
        Activity.SAVING,
    }
)
"""What the process of the trainer reports itself, from its first step on and shortly before."""
