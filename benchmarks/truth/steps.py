"""Faults that make steps go wrong: in the data, the layers, the settings and the weights.

Of each the explanation of the step is judged, and the event of the same step if it was skipped:
they are one diagnosis. Every fault is planted with known answers; the healthy ones must not be
blamed on anything.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import keras
import numpy as np

from ampspec.telemetry import EventType
from truth.case import Outcome, PlantedFault, Question, Verdict
from truth.planted import (
    BATCH,
    EXAMPLES,
    Data,
    Expected,
    Plant,
    dense_model,
    judge,
    pictures,
    sequences,
    table,
)

BAD_STEP: Final = 10
"""The step whose batch holds the bad example."""
STEP_EVENTS: Final = (EventType.OVERFLOW, EventType.LOSS_SPIKE, EventType.GRAD_NORM_JUMP)


@dataclass(frozen=True)
class StepFault:
    """A fault, the step to ask about, and the right answer."""

    plant: Plant
    expected: Expected
    step: int | None = None
    """None: the first step that has an event, else the first that is not finite."""
    is_highest: bool = False
    """Ask about the step with the highest loss, and its or any other skip."""


Recipe = Callable[[int], StepFault]


def mlp(data: Data, *, layers: tuple[Any, ...] = ()) -> Any:
    hidden = [keras.layers.Dense(32, activation="relu", name=f"hidden_{n}") for n in range(2)]
    return dense_model(*hidden, *layers, data=data)


def convolution(data: Data) -> Any:
    return dense_model(
        keras.layers.Conv2D(8, 3, activation="relu", name="conv"),
        keras.layers.GlobalAveragePooling2D(),
        data=data,
    )


class Times(keras.layers.Layer):
    """Multiplies by a number, so that a layer with a known name overflows or underflows."""

    def __init__(self, factor: float, **options: Any) -> None:
        super().__init__(**options)
        self.factor = factor

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor


class AttentionLogits(keras.layers.Layer):
    """Self-attention whose logits are multiplied before the softmax."""

    def __init__(self, factor: float, **options: Any) -> None:
        super().__init__(**options)
        self.factor = factor
        self.project = keras.layers.Dense(8, name="query")

    def build(self, shape: Any) -> None:
        self.project.build(shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        query = self.project(inputs) * self.factor
        logits = keras.ops.matmul(query, keras.ops.transpose(query, (0, 2, 1)))
        return keras.ops.matmul(keras.ops.softmax(logits), inputs)


class Unstable(keras.layers.Layer):
    """A softmax without the subtraction of the maximum."""

    def call(self, inputs: Any) -> Any:
        powers = keras.ops.exp(4.0 * inputs)
        return powers / keras.ops.sum(powers, axis=-1, keepdims=True)


class OwnNorm(keras.layers.Layer):
    """A normalization by E[x^2] - E[x]^2, in the layer's dtype."""

    def call(self, inputs: Any) -> Any:
        inputs = inputs + 400.0
        mean = keras.ops.mean(inputs, axis=-1, keepdims=True)
        squares = keras.ops.mean(inputs * inputs, axis=-1, keepdims=True)
        return (inputs - mean) / keras.ops.sqrt(squares - mean * mean + 1e-3)


def at_step(example: int = 7, step: int = BAD_STEP) -> int:
    """The index of an example in the batch of a step."""
    return step * BATCH + example


# Bad examples


def value_in_example(value: float, policy: str, *, columns: int = 1) -> Recipe:
    def recipe(seed: int) -> StepFault:
        data, example = table(seed), at_step(seed % BATCH)
        data.x[example, :columns] = value
        # Where it changes nothing, the example must be named all the same.
        causes = ["data", "normal"]
        expected = Expected(causes, [rf"\b{example}\b"], ["mixed_bfloat16", "No action"])
        return StepFault(Plant(mlp, data, policy, seed=seed), expected, BAD_STEP)

    return recipe


def several_bad_examples(seed: int) -> StepFault:
    data = table(seed)
    examples = [at_step(seed % 8), at_step(seed % 8 + 20)]
    data.x[examples] = 5e4
    names = [rf"\b{example}\b" for example in examples]
    expected = Expected(["data"], names, ["No action"])
    return StepFault(Plant(mlp, data, seed=seed), expected, BAD_STEP)


def bad_picture(seed: int) -> StepFault:
    data, example = pictures(seed), at_step(seed % BATCH)
    data.x[example] *= 1e6
    expected = Expected(["data"], [rf"\b{example}\b"], ["No action"])
    return StepFault(Plant(convolution, data, seed=seed), expected, BAD_STEP)


def bad_target(seed: int) -> StepFault:
    """A target of 1e6 in a regression of normal targets."""
    data, example = regression(seed), at_step(seed % BATCH)
    data.y[example] = 1e6
    sections = {"loss": "mse"}
    plant = Plant(linear, data, "mixed_bfloat16", 1e-3, seed, sections=sections)
    return StepFault(plant, Expected(["data"], [rf"\b{example}\b"]), BAD_STEP)


def regression(seed: int) -> Data:
    data = table(seed)
    weights = np.random.default_rng(2).normal(size=data.x.shape[1])
    data.y, data.y_val = ((x @ weights).astype(np.float32) for x in (data.x, data.x_val))
    return data


def linear(data: Data) -> Any:
    inputs = keras.Input(data.x.shape[1:])
    hidden = keras.layers.Dense(32, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(1)(hidden))


def wrong_label(seed: int) -> StepFault:
    """One wrong label in easy data, once these are learned: the loss of one example stands out."""
    data, step = easy(seed), 40
    example = (step % (EXAMPLES // BATCH)) * BATCH + seed % BATCH
    data.y[example] = (data.y[example] + 1) % 4
    plant = Plant(mlp, data, "mixed_bfloat16", 0.02, seed, epochs=3)
    return StepFault(plant, Expected(["data"], [rf"\b{example}\b"]), step)


def easy(seed: int) -> Data:
    """Classes that are far apart."""
    data = table(seed)
    centers = 4.0 * np.random.default_rng(3).normal(size=(4, data.x.shape[1]))
    data.x += centers[data.y].astype(np.float32)
    data.x_val += centers[data.y_val].astype(np.float32)
    return data


def trained_on_garbage(policy: str) -> Recipe:
    """Bad examples that were applied; asked of a later step.

    There are several: one may be without effect, because no unit is active for it.
    """

    def recipe(seed: int) -> StepFault:
        data, example = table(seed), at_step(seed % BATCH)
        data.x[at_step(0) : at_step(BATCH) : 8, 0] = 1e18
        data.x[example, 0] = 1e18
        expected = Expected(["data"], [r"\b6[4-9]\d\b|\b70[0-3]\b", r"1e\+18"])
        return StepFault(Plant(mlp, data, policy, seed=seed), expected, BAD_STEP + 3)

    return recipe


def whole_batch(seed: int) -> StepFault:
    data = table(seed)
    data.x[at_step(0) : at_step(BATCH)] = 1e5
    expected = Expected(["data"], [rf"\b{at_step(0)}\b|1e\+05"], ["No action"])
    return StepFault(Plant(mlp, data, seed=seed), expected, BAD_STEP)


# Layers


def layer_overflow(name: str, make: Callable[[], Any], data: Callable[[int], Data]) -> Recipe:
    def recipe(seed: int) -> StepFault:
        plant = Plant(lambda data: dense_model(*make(), data=data), data(seed), seed=seed)
        return StepFault(plant, Expected(["operation"], [name, "bfloat16|overrides"]))

    return recipe


def overflowing_loss(seed: int) -> StepFault:
    """A regularizer that is infinite in float16 at once, since the layer computes it in 16 bits."""

    class Adds(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            self.add_loss(1e-9 * keras.ops.sum(keras.ops.square(inputs * 300.0)))
            return inputs

    plant = Plant(lambda data: mlp(data, layers=(Adds(name="penalty"),)), table(seed), seed=seed)
    return StepFault(plant, Expected(["operation"], ["penalty"]))


def exploding_recurrence(seed: int) -> StepFault:
    def model(data: Data) -> Any:
        recurrent = keras.layers.SimpleRNN(
            16,
            activation="linear",
            recurrent_initializer=keras.initializers.Orthogonal(gain=4.0),
            name="recurrent",
        )
        return dense_model(recurrent, data=data)

    plant = Plant(model, sequences(seed, 16), seed=seed)
    return StepFault(plant, Expected(["operation", "weights"], ["recurrent|initial|diverged"]), 0)


def huge_initial_weights(seed: int) -> StepFault:
    def model(data: Data) -> Any:
        initial = keras.initializers.RandomNormal(stddev=300.0, seed=seed)
        wide = keras.layers.Dense(
            32, activation="relu", kernel_initializer=initial, name="too_large"
        )
        next_wide = keras.layers.Dense(
            32, activation="relu", kernel_initializer=initial, name="too_large_2"
        )
        return dense_model(wide, next_wide, data=data)

    plant = Plant(model, table(seed), seed=seed)
    return StepFault(plant, Expected(["operation", "weights"], ["too_large|logits"]), 0)


# Settings


def learning_rate(rate: float, policy: str) -> Recipe:
    def recipe(seed: int) -> StepFault:
        plant = Plant(mlp, table(seed), policy, rate, seed)
        # A single skip on the way may be due to the scale; the rate must be named all the same.
        causes = ["weights", "loss_scale"]
        expected = Expected(causes, ["learning.rate"], ["overrides"])
        return StepFault(plant, expected, is_highest=True)

    return recipe


def initial_scale(seed: int) -> StepFault:
    """Far too high: the first steps are skipped, and nothing is wrong."""
    scale = {"mode": "dynamic", "initial": 2.0**24}
    plant = Plant(mlp, table(seed), seed=seed, sections={"loss_scale": scale})
    return StepFault(plant, Expected(["loss_scale"], ["No action"]), 0)


def fixed_scale(seed: int) -> StepFault:
    scale = {"mode": "fixed", "scale": 2.0**24}
    sections = {"loss_scale": scale, "guard": {"max_consecutive_skips": 200}}
    plant = Plant(mlp, table(seed), seed=seed, sections=sections)
    return StepFault(plant, Expected(["loss_scale"], [r"Set loss_scale\.scale"]), 0)


def growth_interval(seed: int) -> StepFault:
    """The scale doubles after every step, until it is too high again and again."""
    scale = {"mode": "dynamic", "initial": 2.0**15, "growth_interval": 1}
    plant = Plant(mlp, table(seed), seed=seed, sections={"loss_scale": scale})
    return StepFault(plant, Expected(["loss_scale"], ["No action"]))


# Weights


def flipped_bit(policy: str) -> Recipe:
    """One weight of 3e32, as the highest bit of its exponent makes it; found at the first step."""

    def recipe(seed: int) -> StepFault:
        def model(data: Data) -> Any:
            network = mlp(data)
            kernel = network.get_layer("hidden_1").kernel
            values = np.array(kernel)
            values[seed % 32, (7 * seed) % 32] = 3e32
            kernel.assign(values)
            return network

        plant = Plant(model, table(seed), policy, seed=seed)
        expected = Expected(["weights"], [r"One weight of .*hidden_1"], ["learning_rate, add"])
        return StepFault(plant, expected, 0)

    return recipe


def weight_that_is_nan(seed: int) -> StepFault:
    def model(data: Data) -> Any:
        network = mlp(data)
        kernel = network.get_layer("hidden_0").kernel
        values = np.array(kernel)
        values[0, 0] = np.nan
        kernel.assign(values)
        return network

    return StepFault(Plant(model, table(seed), seed=seed), Expected(["weights"], ["hidden_0"]), 0)


# Healthy steps


def healthy(policy: str, data: Callable[[int], Data], model: Callable[[Data], Any]) -> Recipe:
    def recipe(seed: int) -> StepFault:
        plant = Plant(model, data(seed), policy, seed=seed)
        return StepFault(plant, Expected(["normal"]), BAD_STEP)

    return recipe


def duplicate_example(seed: int) -> StepFault:
    """The same example twice in a batch, which is harmless."""
    data = table(seed)
    data.x[at_step(1)], data.y[at_step(1)] = data.x[at_step(2)], data.y[at_step(2)]
    return StepFault(Plant(mlp, data, seed=seed), Expected(["normal"]), BAD_STEP)


def heavy_tails(seed: int) -> Data:
    """Log-normal features, as prices have; logarithms of them decide the class."""
    data = table(seed)
    data.x, data.x_val = (np.exp(0.8 * x).astype(np.float32) for x in (data.x, data.x_val))
    return data


def bert_like(factor: float) -> Callable[[], Any]:
    return lambda: [AttentionLogits(factor, name="attention"), keras.layers.Flatten()]


RECIPES: Final[dict[str, Recipe]] = {
    "NaN in one example, float16": value_in_example(np.nan, "mixed_float16"),
    "NaN in one example, bfloat16": value_in_example(np.nan, "mixed_bfloat16"),
    "infinity in one example, float16": value_in_example(np.inf, "mixed_float16"),
    "1e30 in one example, float16": value_in_example(1e30, "mixed_float16"),
    "1e30 in one example, bfloat16": value_in_example(1e30, "mixed_bfloat16"),
    "1e30 in one example, float32": value_in_example(1e30, "float32"),
    "3000 in one example, float16": value_in_example(3000.0, "mixed_float16", columns=16),
    "3000 in one example, bfloat16": value_in_example(3000.0, "mixed_bfloat16", columns=16),
    "two examples of 5e4, float16": several_bad_examples,
    "one picture a million times too bright, float16": bad_picture,
    "a target of 1e6 in a regression, bfloat16": bad_target,
    "one wrong label in learned data, bfloat16": wrong_label,
    "steps after applied examples of 1e18, bfloat16": trained_on_garbage("mixed_bfloat16"),
    "steps after applied examples of 1e18, float32": trained_on_garbage("float32"),
    "a whole batch of 1e5, float16": whole_batch,
    "a dense layer overflows": layer_overflow(
        "too_high",
        lambda: [keras.layers.Dense(16), Times(1e5, name="too_high"), Times(1e-5)],
        table,
    ),
    "a convolution overflows": layer_overflow(
        "conv",
        lambda: [
            keras.layers.Conv2D(
                4, 3, kernel_initializer=keras.initializers.Constant(3e4), name="conv"
            ),
            Times(1e-5),
            keras.layers.Flatten(),
        ],
        pictures,
    ),
    "attention logits overflow": layer_overflow("attention", bert_like(300.0), sequences),
    "a normalization's squares overflow": layer_overflow(
        "own_norm", lambda: [keras.layers.Dense(16), OwnNorm(name="own_norm")], table
    ),
    "a softmax without its maximum overflows": layer_overflow(
        "unstable",
        lambda: [
            keras.layers.Dense(16, kernel_initializer="ones"),
            Unstable(name="unstable"),
        ],
        table,
    ),
    "a penalty overflows": overflowing_loss,
    "a recurrent state explodes": exploding_recurrence,
    "initial weights are far too large": huge_initial_weights,
    "learning rate 3000, float16": learning_rate(3000.0, "mixed_float16"),
    "learning rate 5, float16": learning_rate(5.0, "mixed_float16"),
    "learning rate 5, bfloat16": learning_rate(5.0, "mixed_bfloat16"),
    "learning rate 3000, float32": learning_rate(3000.0, "float32"),
    "initial loss scale 2^24": initial_scale,
    "fixed loss scale 2^24": fixed_scale,
    "growth interval of 1": growth_interval,
    "one weight of 3e32, float16": flipped_bit("mixed_float16"),
    "one weight of 3e32, float32": flipped_bit("float32"),
    "a weight that is NaN": weight_that_is_nan,
    "healthy table, float16": healthy("mixed_float16", table, mlp),
    "healthy table, float32": healthy("float32", table, mlp),
    "healthy pictures, bfloat16": healthy("mixed_bfloat16", pictures, convolution),
    "healthy heavy-tailed table, float16": healthy("mixed_float16", heavy_tails, mlp),
    "a duplicated example, float16": duplicate_example,
}
QUICK: Final = (
    "NaN in one example, float16",
    "3000 in one example, float16",
    "1e30 in one example, bfloat16",
    "attention logits overflow",
    "learning rate 5, float16",
    "initial loss scale 2^24",
    "one weight of 3e32, float16",
    "healthy heavy-tailed table, float16",
)


def explained(recipe: Recipe, seed: int) -> Outcome:
    """Judge the explanation of the step."""
    fault = recipe(seed)
    step = fault.step if fault.step is not None else _remarkable_step(fault)
    if step is None:
        return Outcome(Verdict.WRONG, "the run has no remarkable step")
    return judge(fault.plant.explain(step), fault.expected)


def reported(recipe: Recipe, seed: int) -> Outcome | None:
    """Judge the event of the skipped step; None if it was not skipped."""
    fault = recipe(seed)
    run = fault.plant.train()
    overflow = [event for event in run.events if event.type is EventType.OVERFLOW]
    matching = [event for event in overflow if fault.step in (None, event.step)]
    diagnosed = next((event.data for event in matching if "sentence" in event.data), None)
    return None if diagnosed is None else judge(diagnosed, fault.expected)


def _remarkable_step(fault: StepFault) -> int | None:
    run = fault.plant.train()
    if fault.is_highest:
        return int(np.nan_to_num(run.column("loss"), nan=np.inf).argmax())
    steps = [event.step for event in run.events if event.type in STEP_EVENTS]
    if steps:
        return steps[0]
    finite = np.isfinite(run.column("grad_norm")) & np.isfinite(run.column("loss"))
    bad = np.flatnonzero(~finite)
    return int(bad[0]) if len(bad) else None


def _event_outcome(recipe: Recipe, seed: int) -> Outcome:
    outcome = reported(recipe, seed)
    return outcome or Outcome(Verdict.CANNOT_TELL, "no event: the step was not skipped")


NOT_SKIPPED: Final = (
    "1e30 in one example, bfloat16",
    "1e30 in one example, float32",
    "3000 in one example, float16",
    "3000 in one example, bfloat16",
    "a target of 1e6 in a regression, bfloat16",
    "one wrong label in learned data, bfloat16",
    "a penalty overflows",
    "learning rate 5, bfloat16",
    "learning rate 5, float16",
    "one weight of 3e32, float32",
)
"""The faults whose step is applied, at least with some seeds, and the healthy ones."""


def _faults() -> Iterator[PlantedFault]:
    for name, recipe in RECIPES.items():
        expected = "the step is ordinary" if "healthy" in name else "the fault is named"
        is_quick = name in QUICK
        yield PlantedFault(
            name, Question.EXPLAIN, expected, partial(explained, recipe), is_quick=is_quick
        )
        if name not in NOT_SKIPPED and "healthy" not in name and "duplicated" not in name:
            yield PlantedFault(
                name,
                Question.EVENTS,
                "the event of the skipped step names it, too",
                partial(_event_outcome, recipe),
                is_quick=is_quick,
            )


FAULTS: Final = tuple(_faults())
