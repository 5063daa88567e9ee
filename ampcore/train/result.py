"""What a finished run hands over."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run; `val_loss` and `val_accuracy` are None without validation data.

    `weights_digest` is the SHA-256 of all weights in the model's order. `examples_per_s` leaves
    the first block out (it holds the compilation) when there is more than one. `stopped`: the
    run ended early because it was asked to, and saved no model.
    """

    steps: int
    skipped: int
    final_loss: float
    final_loss_scale: float
    val_loss: float | None
    val_accuracy: float | None
    examples_per_s: float
    parameters: int
    train_s: float
    weights_digest: str
    model_file: Path | None = None
    stopped: bool = False

    def to_json(self) -> dict[str, Any]:
        """The summary stored with a job; the model's file by its name in the output folder."""
        return {
            "steps": self.steps,
            "skipped": self.skipped,
            "final_loss": self.final_loss,
            "final_loss_scale": self.final_loss_scale,
            "val_loss": self.val_loss,
            "val_accuracy": self.val_accuracy,
            "examples_per_s": self.examples_per_s,
            "parameters": self.parameters,
            "train_s": self.train_s,
            "weights_digest": self.weights_digest,
            "model_file": self.model_file.name if self.model_file else None,
        }


def weights_digest(model: Any) -> str:
    """The SHA-256 over the bytes of the model's weights, in order, in hexadecimal."""
    digest = hashlib.sha256()
    for weight in model.weights:
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()
