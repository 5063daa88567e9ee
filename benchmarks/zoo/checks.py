"""The checks of one model of the zoo, and the row that they make in the table."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import keras
import numpy as np

from ampspec.errors import TrainingError
from ampspec.precision.precision import Policy
from zoo.architecture import Architecture
from zoo.comparison import (
    FLOAT32_LIMIT,
    NEAR,
    OF_KERAS,
    PERTURBATION,
    TIMES_TWIN,
    TWINS,
    distance_of_ends,
    relative_difference,
)
from zoo.fit_checks import FitChecks
from zoo.load_saved import PREDICTIONS
from zoo.outcome import CheckFailed, Outcome, Row, outcome_of
from zoo.reference import PlainKeras, global_policy, values_of
from zoo.training import FIRST_SCALE, Training, train


def check_architecture(
    architecture: Architecture, folder: Path, report: Callable[[Row], None]
) -> None:
    """Make all checks of a model.

    Args:
        architecture: The architecture.
        folder: For saved models and checkpoints.
        report: Called with the row after each check, so that what ends the process is a check that
            failed, and not the end of the others.
    """
    row = Row(architecture.name, architecture.source)
    began = time.monotonic()
    is_in_fit = architecture.networks is not None
    checks: Any = (FitChecks if is_in_fit else TrainerChecks)(architecture, folder)
    for check in architecture.checks:
        row.outcomes[check] = Outcome("failed", "the process ended during the check")
        report(row)
        row.outcomes[check] = outcome_of(
            architecture,
            check,
            getattr(checks, check),
            folder,
            is_last=check != "saved",  # another process loads the model
        )
        row.parameters = checks.parameters
        row.seconds = round(time.monotonic() - began, 1)
        report(row)


class TrainerChecks:
    """The checks of a model that `Trainer.from_keras` trains, or refuses.

    Each returns what it measured, or raises. They build on each other in the order of `TRAINED`.

    Args:
        architecture: The architecture.
        folder: For saved models and checkpoints.
    """

    def __init__(self, architecture: Architecture, folder: Path) -> None:
        self._architecture, self._folder = architecture, folder
        self._model = architecture.model()
        self._initial_values = values_of(self._model.variables)
        self.parameters = int(self._model.count_params())
        self._float32: Training | None = None
        self._keras: PlainKeras | None = None

    def float32(self) -> str:
        """The losses in float32 are those of plain Keras."""
        self._keras = PlainKeras(self._architecture, self._model)
        expected = self._keras.losses()
        if not np.isfinite(expected).all():
            raise CheckFailed(f"the losses of Keras are not finite: {expected}")
        training = self._train("float32", folder=self._folder / "float32")
        self._float32 = training
        self._trained_values = values_of(self._model.variables)
        self._write_predictions("float32")
        difference = relative_difference(training.losses, expected)
        if self._architecture.chaotic:
            losses = [self._keras.losses(PERTURBATION["float32"], seed) for seed in range(TWINS)]
            twin = max(relative_difference(each, expected) for each in losses)
            limit = max(TIMES_TWIN * twin, FLOAT32_LIMIT)
            detail = f"{_share(difference)}, its twins {_share(twin)}"
        else:
            limit, detail = FLOAT32_LIMIT, _share(difference)
        if not difference <= limit:
            raise CheckFailed(f"the losses differ from those of Keras by {detail}")
        return detail

    def mixed_bfloat16(self) -> str:
        """A run in mixed_bfloat16 ends near the one in float32."""
        return self._check_mixed("mixed_bfloat16")

    def mixed_float16(self) -> str:
        """A run in mixed_float16 ends near the one in float32."""
        return self._check_mixed("mixed_float16")

    def saved(self) -> str:
        """The run has saved the model; another process loads it, see `load_saved`."""
        training = self._trained()
        if "model_not_saved" in training.warnings():
            raise CheckFailed(training.warnings()["model_not_saved"])
        if training.result is None or training.result.model_file is None:
            raise CheckFailed("no model was saved")
        return "saved"

    def resume(self) -> str:
        """A run that is stopped half-way and resumed ends as one without a stop, bit for bit."""
        architecture, whole = self._architecture, self._trained()
        folder = self._folder / "resume"
        self._assign_initial_values()
        first = train(architecture, self._model, "float32", folder=folder, stop_after_blocks=2)
        if first.result is None or not first.result.stopped:
            raise CheckFailed("the run could not be stopped")
        if any(
            not np.array_equal(value, initial)
            for value, initial in zip(
                values_of(self._model.variables), self._initial_values, strict=True
            )
        ):
            raise CheckFailed("the run that was stopped has not put the variables back")
        # A resumed run that ends has no steps left for another one.
        copy = copytree(folder, folder.with_name("resume_again"))
        # Its layers have other numbers than those of the model that was stopped.
        _, difference = self._resumed(first, folder)
        if not difference:
            return f"stopped after {len(first.losses)} of {len(whole.losses)} steps"
        # TensorFlow's graph optimizer orders some sums by the names of operations. A network that
        # amplifies the last digit differs by more than that after a step.
        keras.utils.clear_session()
        _, difference = self._resumed(first, copy)
        if difference:
            raise CheckFailed(difference)
        return "bit-equal if layers have the same numbers"

    def _resumed(self, first: Training, folder: Path) -> tuple[Training, str]:
        """A run that resumes with a new model, and how it differs from one without a stop."""
        model, whole = self._architecture.model(), self._trained()
        second = train(self._architecture, model, "float32", folder=folder, resume=True)
        losses = [*first.losses, *second.losses]
        if losses != whole.losses:
            return second, f"the losses are {losses}, without a stop {whole.losses}"
        try:
            _check_equal("weights", values_of(model.variables), self._trained_values)
            _check_equal("slots", second.slots(), whole.slots())
        except CheckFailed as error:
            return second, str(error)
        return second, ""

    def refused(self) -> str:
        """The model is refused before anything runs, with a message that says why."""
        training = None
        try:
            training = train(self._architecture, self._model, "float32")
        except TrainingError as error:
            if not re.search(self._architecture.refusal, str(error)):
                raise CheckFailed(f"the message is {error}") from error
        if training is not None:
            raise CheckFailed(f"the model was trained: {training.losses}")
        _check_equal("weights", values_of(self._model.variables), self._initial_values)
        return self._architecture.refusal

    def _check_mixed(self, policy: Policy) -> str:
        reference, plain = self._trained(), self._keras
        training = self._train(policy, folder=self._folder / policy)
        self._write_predictions(policy)
        half = self._architecture.steps // 2
        if not np.isfinite(training.losses).all():
            raise CheckFailed(f"the losses are not finite: {training.losses}")
        if any(training.skipped[half:]):
            raise CheckFailed(f"steps were skipped in the second half: {training.skipped}")
        distance = distance_of_ends(training.losses, reference.losses)
        limit, detail = NEAR, f"{distance:.2%}"
        if distance > NEAR and plain is not None:
            seeds = range(TWINS if self._architecture.chaotic else 1)
            losses = [plain.losses(PERTURBATION[policy], seed) for seed in seeds]
            twin = max(distance_of_ends(each, reference.losses) for each in losses)
            limit, detail = TIMES_TWIN * twin, f"{distance:.2%}, its twin {twin:.2%}"
        if distance > limit:
            of_keras = self._distance_of_keras(policy)
            limit, detail = OF_KERAS * of_keras, f"{distance:.2%}, Keras {of_keras:.2%}"
        if not distance <= limit:
            raise CheckFailed(f"the losses end {detail} away: {training.losses}")
        skipped = sum(training.skipped)
        return f"{detail}, {skipped} skipped" if skipped else detail

    def _distance_of_keras(self, policy: Policy) -> float:
        """How far plain Keras ends in this policy from the run in float32."""
        architecture = self._architecture
        if policy == "mixed_float16":
            architecture = replace(architecture, optimizer=self._optimizer_with_loss_scale)
        with global_policy(policy):
            model = architecture.model()
        losses = PlainKeras(architecture, model).losses()
        return distance_of_ends(losses, self._trained().losses)

    def _optimizer_with_loss_scale(self) -> Any:
        optimizer = self._architecture.optimizer()
        return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=FIRST_SCALE)

    def _trained(self) -> Training:
        if self._float32 is None:
            raise CheckFailed("there is no run in float32 to compare with")
        return self._float32

    def _train(self, policy: Policy, *, folder: Path) -> Training:
        self._assign_initial_values()
        return train(self._architecture, self._model, policy, folder=folder)

    def _assign_initial_values(self) -> None:
        for variable, value in zip(self._model.variables, self._initial_values, strict=True):
            variable.assign(value)

    def _write_predictions(self, policy: Policy) -> None:
        x, *_ = self._architecture.batches()[0]
        outputs = keras.tree.flatten(self._model(x, training=False))
        path = self._folder / policy / PREDICTIONS
        np.savez(path, *[np.array(output) for output in outputs])


def _share(difference: float) -> str:
    return f"{difference:.0e}" if difference else "0"


def _check_equal(name: str, values: list[Any], expected: list[Any]) -> None:
    """Raise CheckFailed unless all values are equal, bit for bit."""
    if len(values) != len(expected):
        raise CheckFailed(f"{len(values)} {name} instead of {len(expected)}")
    for index, (value, other) in enumerate(zip(values, expected, strict=True)):
        if not np.array_equal(value, other, equal_nan=value.dtype.kind == "f"):
            raise CheckFailed(f"the {name} differ, first in number {index}, {value.shape}")
