"""The result of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run; `val_loss` and `val_accuracy` are None without validation data.

    `metrics` has the values of an evaluation of the saved model, by name: `val_loss` and all
    others. It is the last evaluation, or with `train.keep: best` the best one. `best` tells which
    evaluation was the best: its `metric`, `value`, `epoch` (from 0), `steps` and `metrics`; None
    unless the spec asks for it. `stopped_early` has `epoch`, `metric` and `best` of a run that
    early stopping ended, or a callback of Keras, which has no metric; else None.
    `final_loss` is the loss of the last applied step. `weights_digest` is the SHA-256 of
    all weights in the models' order. `examples_per_s` leaves the first block out (it holds the
    compilation) when there is more than one. `peak_memory_bytes` is the device's where TensorFlow
    reports it, else the process's. `stopped`: the run ended early on request, and saved no model.
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
    peak_memory_bytes: int
    policy: str
    engine: str | None
    scale_health: str
    weights_digest: str
    model_files: tuple[Path, ...] = ()
    stopped: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    best: Mapping[str, Any] | None = None
    stopped_early: Mapping[str, Any] | None = None
    tf32: bool = False
    """Whether float32 products could be computed in TF32: the spec allows it, and the device has
    it."""
    best_model_files: tuple[Path, ...] = ()
    """With `train.keep: both`, the models with the best weights."""
    global_batch_size: int = 0
    """The examples of a step on all ranks: `batch_size` × `accumulate` × ranks."""
    history: Mapping[str, list[float]] = field(default_factory=dict)
    """Of `Trainer.from_keras`: the loss, the metrics, the learning rate, the loss scale and the
    skipped steps of each epoch that this call has trained, by name as in Keras's `History.history`.
    """
    epochs: tuple[int, ...] = ()
    """The numbers of these epochs, counted from 0."""
    constant_metrics: Mapping[str, float] = field(default_factory=dict)
    """The metrics of the best constant prediction for the validation examples, by name: a model
    that is no better has learned nothing. Only those that are known."""
    ranks: Mapping[str, Any] | None = None
    """With several ranks, the time of each for a step, and which of them is slow."""

    @property
    def model_file(self) -> Path | None:
        """The saved model, or the first of several."""
        return self.model_files[0] if self.model_files else None

    def to_json(self) -> dict[str, Any]:
        """The summary stored with a job; the model file as its name in the output folder."""
        return {
            "steps": self.steps,
            "skipped": self.skipped,
            "final_loss": self.final_loss,
            "final_loss_scale": self.final_loss_scale,
            "val_loss": self.val_loss,
            "val_accuracy": self.val_accuracy,
            "metrics": dict(self.metrics),
            "examples_per_s": self.examples_per_s,
            "parameters": self.parameters,
            "train_s": self.train_s,
            "peak_memory_bytes": self.peak_memory_bytes,
            "policy": self.policy,
            "tf32": self.tf32,
            "engine": self.engine,
            "scale_health": self.scale_health,
            "weights_digest": self.weights_digest,
            "model_file": self.model_file.name if self.model_file else None,
            "best": None if self.best is None else dict(self.best),
            "stopped_early": None if self.stopped_early is None else dict(self.stopped_early),
            "best_model_file": self.best_model_files[0].name if self.best_model_files else None,
            "global_batch_size": self.global_batch_size,
            "constant_metrics": dict(self.constant_metrics),
            **({} if self.ranks is None else {"ranks": dict(self.ranks)}),
        }
