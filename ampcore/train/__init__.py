"""The trainer: from a job spec to a trained model, every step accounted for."""

from ampcore.train.result import TrainResult
from ampcore.train.trainer import Trainer

__all__ = ["TrainResult", "Trainer"]
