"""Layers that leave the range of float16, up or down, and what the ranges of the first step say.

The model is trained in float32; the question is what float16 would do to it. The answer is right if
it names the planted layer, and in a healthy model none.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import keras

from ampspec.telemetry.ranges.number_formats import FLOAT16
from ampspec.telemetry.ranges.range_report import range_report
from truth.case import Outcome, PlantedFault, Question, Verdict
from truth.planted import Data, Plant, dense_model, pictures, sequences, table
from truth.steps import AttentionLogits, Times, convolution, heavy_tails, mlp

Model = Callable[[Data], Any]
Recipe = tuple[Callable[[int], Data], Model, str | None]
"""The data, the model, and the layer that is to be named; None: none."""

HUGE: Final = keras.initializers.RandomNormal(stddev=1e5, seed=0)
TINY: Final = keras.initializers.RandomNormal(stddev=1e-10, seed=0)


def layers(*factories: Callable[[], Any]) -> Model:
    """A model of new layers each time, and logits."""
    return lambda data: dense_model(*(make() for make in factories), data=data)


def dense(initializer: Any) -> Callable[[], Any]:
    return partial(keras.layers.Dense, 16, kernel_initializer=initializer, name="planted")


def conv(initializer: Any) -> Callable[[], Any]:
    return partial(keras.layers.Conv2D, 8, 3, kernel_initializer=initializer, name="planted")


def normalized() -> Any:
    """Undoes the size of what comes before, so that nothing else leaves the range."""
    return keras.layers.LayerNormalization(epsilon=1e-30, name="norm")


def recurrent() -> Any:
    return keras.layers.SimpleRNN(
        16,
        activation="linear",
        recurrent_initializer=keras.initializers.Orthogonal(gain=4.0, seed=0),
        name="planted",
    )


class Damp(keras.layers.Layer):
    """Changes nothing, and multiplies the gradient by 1e-14."""

    def call(self, inputs: Any) -> Any:
        small = 1e-14 * inputs
        return small + keras.ops.stop_gradient(inputs - small)


def small_gradients(data: Data) -> Any:
    return layers(
        partial(keras.layers.Dense, 16, activation="tanh", name="planted"),
        partial(Damp, name="damp"),
    )(data)


RECIPES: Final[dict[str, Recipe]] = {
    "the outputs of a dense layer overflow": (table, layers(dense(HUGE), normalized), "planted"),
    "the outputs of a dense layer underflow": (table, layers(dense(TINY), normalized), "planted"),
    "the outputs of a convolution overflow": (pictures, layers(conv(HUGE), normalized), "planted"),
    "the outputs of a convolution underflow": (pictures, layers(conv(TINY), normalized), "planted"),
    "the outputs of attention overflow": (
        sequences,
        layers(partial(AttentionLogits, 1.0), partial(Times, 1e6, name="planted"), normalized),
        "planted",
    ),
    "the outputs of attention underflow": (
        sequences,
        layers(partial(AttentionLogits, 1.0), partial(Times, 1e-11, name="planted"), normalized),
        "planted",
    ),
    "a normalization's outputs overflow": (
        table,
        layers(
            partial(
                keras.layers.LayerNormalization,
                gamma_initializer=keras.initializers.Constant(1e6),
                name="planted",
            ),
            normalized,
        ),
        "planted",
    ),
    "a recurrent state overflows": (
        partial(sequences, length=24),
        layers(recurrent, normalized),
        "planted",
    ),
    "the gradients of a layer underflow": (table, small_gradients, "planted"),
    "healthy table": (table, mlp, None),
    "healthy pictures": (pictures, convolution, None),
    "healthy heavy-tailed table": (heavy_tails, mlp, None),
}


def named_by_ranges(recipe: Recipe, seed: int) -> Outcome:
    """Judge the sentence about float16."""
    data_of, model, planted = recipe
    sample = Plant(model, data_of(seed), "float32", seed=seed).first_step().ranges()
    report = range_report([sample], FLOAT16)
    if report is None:
        return Outcome(Verdict.CANNOT_TELL, "no sample")
    is_right = planted in report.layers if planted is not None else not report.layers
    return Outcome(Verdict.RIGHT if is_right else Verdict.WRONG, report.sentence)


FAULTS: Final = tuple(
    PlantedFault(
        name,
        Question.RANGES,
        "no layer" if recipe[2] is None else "the planted layer",
        partial(named_by_ranges, recipe),
        is_quick=name in ("the outputs of a dense layer underflow", "healthy table"),
    )
    for name, recipe in RECIPES.items()
)
