"""What plain Keras computes for a model of the zoo: the losses of each batch, and of a twin."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from zoo.architecture import SEED, Architecture, Check, Model


def compile_as_described(model: Model, architecture: Architecture) -> None:
    """Compile a model with what the zoo says, without XLA."""
    # Metrics would change nothing of the losses; the trainer's are those of validation data.
    model.compile(
        architecture.optimizer(),
        architecture.loss,
        loss_weights=architecture.loss_weights,
        metrics=None,
        jit_compile=False,
    )


class PlainKeras:
    """A model that `train_on_batch` trains from the same beginning each time.

    Args:
        architecture: The architecture.
        model: Its model. After each call its variables have the values from before.
    """

    def __init__(self, architecture: Architecture, model: Model) -> None:
        self._model = model
        self._batches = architecture.batches()
        compile_as_described(model, architecture)
        model.optimizer.build(model.trainable_variables)
        self._variables = [*model.variables, *model.optimizer.variables]
        self._initial_values = values_of(self._variables)

    def losses(self, perturbation: float = 0.0, seed: int = SEED) -> NDArray[np.float64]:
        """The loss of each batch, from initial weights that differ by a share of themselves."""
        self._assign_initial_values()  # another run may have trained the model since
        random = np.random.default_rng(seed)
        model = self._model
        for weight in model.trainable_variables if perturbation else ():
            value = np.array(weight)
            signs = random.choice([-1.0, 1.0], value.shape)
            weight.assign(value * (1 + perturbation * signs).astype(value.dtype))
        losses = []
        try:
            for batch in self._batches:
                model.reset_metrics()
                losses.append(float(model.train_on_batch(*batch, return_dict=True)["loss"]))
        finally:
            self._assign_initial_values()
        return np.array(losses)

    def _assign_initial_values(self) -> None:
        for variable, value in zip(self._variables, self._initial_values, strict=True):
            variable.assign(value)


def values_of(variables: Any) -> list[NDArray[Any]]:
    """Copies of the values of variables."""
    return [np.array(variable) for variable in variables]


@contextmanager
def global_policy(name: str) -> Iterator[None]:
    """A context in which Keras creates layers in a dtype policy."""
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(previous)


def failure_of_keras(architecture: Architecture, check: Check, folder: Path) -> str | None:
    """How Keras alone fails at what a check asks for; None if it does not."""
    try:
        if check == "saved":
            for policy in ("float32", "mixed_bfloat16"):
                with global_policy(policy):
                    _save_and_load(architecture, folder)
            return None
        with global_policy(check):
            losses = PlainKeras(architecture, architecture.model()).losses()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if np.isfinite(losses).all() else "the losses are not finite"


def _save_and_load(architecture: Architecture, folder: Path) -> None:
    model, (x, *_) = architecture.model(), architecture.batches()[0]
    model(x, training=False)  # moves the states of seed generators
    path = folder / f"plain_{os.getpid()}.keras"
    model.save(path)
    expected = keras.tree.flatten(model(x, training=False))
    outputs = keras.tree.flatten(keras.models.load_model(path, safe_mode=False)(x, training=False))
    for output, value in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(output, value, err_msg="the loaded model predicts otherwise")
