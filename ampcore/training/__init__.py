"""The trainer: trains the model of a job spec and records every step."""

from ampcore.training.result.train_result import TrainResult
from ampcore.training.trainer import Trainer

__all__ = ["TrainResult", "Trainer"]
