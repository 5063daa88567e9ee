"""The trainer: trains the model of a job spec and records every step."""

from ampcore.train.result import TrainResult
from ampcore.train.trainer import Trainer

__all__ = ["TrainResult", "Trainer"]
