"""Architecture: a model of the zoo, its data and loss, and what is expected of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import keras
import numpy as np

Model = Any
Data = tuple[Any, ...]
"""(x, y) or (x, y, sample_weight), as `fit` takes them; each may be a dictionary or a list."""
Wrap = Callable[[Any], Any]
"""Returns an optimizer, with a loss scale or without one."""
Check = Literal["float32", "mixed_bfloat16", "mixed_float16", "saved", "resume", "refused"]

TRAINED: Final[tuple[Check, ...]] = (
    "float32",
    "mixed_bfloat16",
    "mixed_float16",
    "saved",
    "resume",
)
"""The checks of a model that a run trains."""
IN_FIT: Final[tuple[Check, ...]] = ("float32", "mixed_bfloat16", "mixed_float16", "refused")
"""The checks of a model whose `train_step` is its own."""
SEED: Final = 0


def momentum() -> Any:
    """SGD with momentum: unlike Adam it does not enlarge what rounding changes."""
    return keras.optimizers.SGD(0.01, momentum=0.9)


def slow_momentum() -> Any:
    """The same with small steps, for deep networks on small batches."""
    return keras.optimizers.SGD(1e-4, momentum=0.9)


def adam() -> Any:
    """Adam with a usual learning rate."""
    return keras.optimizers.Adam(1e-3)


@dataclass(frozen=True)
class Deviation:
    """Why a check of a model fails, with a part of the message by which that is recognised.

    Attributes:
        reason: The reason, as the table says it.
        message: A regular expression that the failure of the check matches.
        in_keras: Whether Keras alone fails in the same way, which is checked, too; in the form of
            a regular expression where its message is another one.
    """

    reason: str
    message: str
    in_keras: bool | str = False


NO_KEYWORDS: Final = Deviation(
    "constructors without the `name` and `dtype` that Keras passes: Keras cannot load the model",
    "unexpected keyword argument|was created by passing",
    in_keras=True,
)
"""For layers as many examples write them: without `**kwargs` and without get_config."""
UNSAVED_SEED = Deviation(
    "Keras saves no state of a seed generator: a loaded model draws other noise",
    "predictions in float32 differ",
    in_keras="predicts otherwise",
)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model of the zoo.

    Attributes:
        name: Its name in the table.
        source: Where it comes from: a library, or the kind of example that it follows.
        build: Builds the model; random seeds are set before.
        data: The examples, for a generator and their number.
        loss: As of `compile`, and so are `loss_weights` and `metrics`.
        optimizer: Builds the optimizer.
        batch_size: The examples of a step.
        steps: The steps of a run.
        checks: What is checked.
        left_out: Why some checks are not made.
        chaotic: Why losses are compared with those of a perturbed twin; empty: they are not.
        deviations: By their checks, the documented deviations.
        refusal: A regular expression for the message that refuses the model.
        overrides: Of the precision policy.
        module: A package that has to be installed.
        networks: Of a model with a `train_step` of its own, the parts that get a policy, each with
            an example.
        compile_model: Compiles it with optimizers that a function wraps.
        columns: The names that its `train_step` returns.
    """

    name: str
    source: str
    build: Callable[[], Model]
    data: Callable[[np.random.Generator, int], Data]
    loss: Any = None
    loss_weights: Any = None
    metrics: Any = ()
    optimizer: Callable[[], Any] = momentum
    batch_size: int = 4
    steps: int = 6
    checks: Sequence[Check] = TRAINED
    left_out: str = ""
    chaotic: str = ""
    deviations: Mapping[Check, Deviation] = field(default_factory=dict)
    refusal: str = ""
    overrides: Sequence[Mapping[str, Any]] = ()
    module: str = ""
    networks: Callable[[Model], Sequence[tuple[Model, Any]]] | None = None
    compile_model: Callable[[Model, Wrap], None] | None = None
    columns: Sequence[str] = ()

    def model(self) -> Model:
        """A new model, the same one each time."""
        keras.utils.set_random_seed(SEED)
        return self.build()

    def examples(self) -> Data:
        """The examples of all steps, the same ones each time."""
        return self.data(np.random.default_rng(SEED), self.batch_size * self.steps)

    def batches(self) -> list[Data]:
        """The examples of each step."""
        data = self.examples()

        def batch(step: int) -> Data:
            rows = slice(step * self.batch_size, (step + 1) * self.batch_size)
            return keras.tree.map_structure(lambda values: values[rows], data)  # type: ignore[no-any-return]

        return [batch(step) for step in range(self.steps)]


def pattern_of(
    subject: str,
    build: Callable[[], Model],
    kind: str,
    data: Callable[[np.random.Generator, int], Data],
    **options: Any,
) -> Architecture:
    """A pattern of public examples.

    Args:
        subject: What the examples are about.
        build: Builds the model, and gives it its name.
        kind: What is special about the pattern.
        data: As of Architecture.
        **options: The other attributes of Architecture.
    """
    source = f"Patterns of {subject}: {kind}"
    return Architecture(name=build.__name__, source=source, build=build, data=data, **options)
