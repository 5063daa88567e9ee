"""Runs with a fault, and how they end: a result without use must fail, and say why."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from truth.case import Outcome, PlantedFault, Question, Verdict
from truth.planted import Data, Plant, dense_model, pictures, sequences, table
from truth.steps import AttentionLogits, convolution, heavy_tails, mlp


@dataclass(frozen=True)
class Ending:
    """A run, and the right end: patterns of its error, or None if it must succeed."""

    plant: Plant
    error: tuple[str, ...] | None


Recipe = Callable[[int], Ending]


def bad_example_in_most_batches(seed: int) -> Ending:
    data = table(seed)
    data.x[seed % 16 : 900 : 64, 3] = np.nan
    return Ending(Plant(mlp, data, seed=seed), ("skipped", "training example", "non-finite"))


def bad_examples_here_and_there(seed: int) -> Ending:
    """One bad batch in sixteen is skipped; the rest has learned."""
    data = table(seed)
    data.x[70, 3] = np.nan
    return Ending(Plant(mlp, data, seed=seed, epochs=4), None)


def attention_overflows(seed: int) -> Ending:
    def model(data: Data) -> object:
        return dense_model(AttentionLogits(300.0, name="attention"), data=data)

    return Ending(Plant(model, sequences(seed), seed=seed), ("attention", "overrides"))


def learning_rate(policy: str) -> Recipe:
    def recipe(seed: int) -> Ending:
        return Ending(Plant(mlp, table(seed), policy, 3000.0, seed, epochs=4), ("learning.rate",))

    return recipe


def fixed_scale(seed: int) -> Ending:
    scale = {"mode": "fixed", "scale": 2.0**24}
    plant = Plant(mlp, table(seed), seed=seed, sections={"loss_scale": scale})
    return Ending(plant, (r"loss.scale",))


def bad_validation_example(seed: int) -> Ending:
    data = table(seed)
    data.x_val[100 + seed, 2] = np.nan
    return Ending(Plant(mlp, data, seed=seed), ("val_loss", "validation example", f"{100 + seed}"))


def healthy(policy: str, data: Callable[[int], Data], model: Callable[[Data], object]) -> Recipe:
    def recipe(seed: int) -> Ending:
        return Ending(Plant(model, data(seed), policy, seed=seed), None)

    return recipe


def backing_off(seed: int) -> Ending:
    """A short run whose first steps are skipped, until the scale fits."""
    scale = {"mode": "dynamic", "initial": 2.0**24}
    plant = Plant(mlp, table(seed), seed=seed, epochs=1, sections={"loss_scale": scale})
    return Ending(plant, None)


RECIPES: Final[dict[str, Recipe]] = {
    "most batches have a NaN": bad_example_in_most_batches,
    "one batch of sixteen has a NaN": bad_examples_here_and_there,
    "attention logits overflow in every step": attention_overflows,
    "learning rate 3000, float16": learning_rate("mixed_float16"),
    "learning rate 3000, float32": learning_rate("float32"),
    "fixed loss scale 2^24": fixed_scale,
    "a NaN in the validation data": bad_validation_example,
    "healthy heavy-tailed table, float16": healthy("mixed_float16", heavy_tails, mlp),
    "healthy pictures, float16": healthy("mixed_float16", pictures, convolution),
    "a loss scale that backs off from 2^24": backing_off,
}


def ending(recipe: Recipe, seed: int) -> Outcome:
    """Judge how a run ends."""
    fault = recipe(seed)
    error = fault.plant.train().error
    if fault.error is None:
        return Outcome(Verdict.RIGHT if error is None else Verdict.WRONG, error or "succeeded")
    if error is None:
        return Outcome(Verdict.WRONG, "succeeded")
    is_right = all(re.search(pattern, error) for pattern in fault.error)
    return Outcome(Verdict.RIGHT if is_right else Verdict.WRONG, error[:300])


FAULTS: Final = tuple(
    PlantedFault(
        f"{name}: the end of the run",
        Question.EVENTS,
        "the run ends as its result deserves",
        partial(ending, recipe),
        is_quick=name in ("a NaN in the validation data", "most batches have a NaN"),
    )
    for name, recipe in RECIPES.items()
)
