"""Trains a model of the zoo with `Trainer.from_keras`."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import ampcore
from ampspec.precision.precision import Policy
from ampspec.telemetry import Event, StepBlock
from zoo.architecture import Architecture, Model
from zoo.reference import values_of

FIRST_SCALE = 2.0**7
"""Runs of a few steps have no time to lower a usual first scale."""
FIRST_LOSS_SCALE = {"mode": "dynamic", "initial": FIRST_SCALE}


@dataclass
class Training:
    """A run and what it reported."""

    optimizer: Any
    losses: list[float] = field(default_factory=list)
    skipped: list[bool] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    result: ampcore.TrainResult | None = None

    def add(self, block: StepBlock) -> None:
        """Add the steps of a block."""
        self.losses += block["loss"].tolist()
        self.skipped += block["skipped"].astype(bool).tolist()

    def warnings(self) -> Mapping[str, str]:
        """The messages of all warnings, by their codes."""
        return {
            event.data["code"]: event.data["message"]
            for event in self.events
            if event.type == "warning" and "code" in event.data
        }

    def slots(self) -> list[NDArray[Any]]:
        """The values of the optimizer's variables."""
        return values_of(self.optimizer.variables)


def train(
    architecture: Architecture,
    model: Model,
    policy: Policy,
    *,
    folder: Path | None = None,
    resume: bool = False,
    stop_after_blocks: int | None = None,
) -> Training:
    """Train a model on all of its batches, or stop after some steps.

    Args:
        architecture: The architecture.
        model: Its model.
        policy: The precision policy.
        folder: For the saved model and the checkpoint.
        resume: Whether to resume from the checkpoint in the folder.
        stop_after_blocks: The blocks after which the run stops; the first ones have one step each.
            None: it runs to the end.
    """
    training = Training(architecture.optimizer())
    trainer = ampcore.Trainer.from_keras(
        model,
        data=architecture.examples(),
        loss=architecture.loss,
        loss_weights=architecture.loss_weights,
        metrics=architecture.metrics,
        optimizer=training.optimizer,
        batch_size=architecture.batch_size,
        shuffle=False,
        policy=policy,
        overrides=architecture.overrides if policy != "float32" else (),
        loss_scale=FIRST_LOSS_SCALE if policy == "mixed_float16" else None,
        verbose=0,
        runtime={"device": "cpu", "engine": "graph"},
        # Sampling ranges takes a third of so short a run.
        telemetry={"ranges": {"enabled": False}},
        output_dir=folder,
        resume=resume,
    )
    calls = itertools.count()
    training.result = trainer.run(
        on_block=training.add,
        on_event=training.events.append,
        should_stop=lambda: next(calls) == stop_after_blocks,
    )
    return training
