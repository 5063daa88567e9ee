"""Plants faults into small trainings, and judges what ampcore says of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from ampcore.training import Trainer
from ampcore.training.explain.step_explainer import StepExplainer
from ampcore.training.jobs.from_keras import keras_job
from ampcore.training.jobs.keras_arguments import loss_scale_section
from ampspec.errors import TrainingError
from ampspec.telemetry import Event, EventType, StepBlock
from truth.case import Outcome, Verdict

FEATURES = 16
CLASSES = 4
EXAMPLES = 1024
BATCH = 64
UNSURE = ("unknown", "not_reproducible")


@dataclass
class Data:
    """Training and validation arrays; a fault changes them in place."""

    x: Any
    y: Any
    x_val: Any
    y_val: Any


def table(seed: int, *, offset: float = 0.0) -> Data:
    """Normal features, whose class depends on them: about 90 % can be learned."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(EXAMPLES + 256, FEATURES)).astype(np.float32)
    weights = np.random.default_rng(1).normal(size=(FEATURES, CLASSES))
    y = (x @ weights + 0.5 * random.normal(size=(len(x), CLASSES))).argmax(axis=1)
    x += np.float32(offset)
    return Data(x[:EXAMPLES], y[:EXAMPLES], x[EXAMPLES:], y[EXAMPLES:])


def pictures(seed: int) -> Data:
    """Pictures of 8 x 8 pixels with a bright quarter, whose place is the class."""
    random = np.random.default_rng(seed)
    y = random.integers(4, size=EXAMPLES + 256)
    x = random.normal(0.3, 0.2, size=(len(y), 8, 8, 1)).astype(np.float32)
    for row, quarter in enumerate(y):
        top, left = divmod(int(quarter), 2)
        x[row, 4 * top : 4 * top + 4, 4 * left : 4 * left + 4] += 0.5
    return Data(x[:EXAMPLES], y[:EXAMPLES], x[EXAMPLES:], y[EXAMPLES:])


def sequences(seed: int, length: int = 12) -> Data:
    """Normal sequences, whose class depends on their mean."""
    random = np.random.default_rng(seed)
    y = random.integers(CLASSES, size=EXAMPLES + 256)
    x = random.normal(size=(len(y), length, 4)).astype(np.float32)
    x[np.arange(len(y)), :, y] += 1.0
    return Data(x[:EXAMPLES], y[:EXAMPLES], x[EXAMPLES:], y[EXAMPLES:])


def dense_model(*layers: Any, data: Data) -> Any:
    """A model of these layers and logits, for the shapes of the data."""
    inputs = keras.Input(data.x.shape[1:])
    outputs = inputs
    for layer in layers:
        outputs = layer(outputs)
    if len(outputs.shape) > 2:
        outputs = keras.layers.Flatten()(outputs)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, name="logits")(outputs))


@dataclass
class Run:
    """What a training has said and how it ended."""

    events: list[Event] = field(default_factory=list)
    steps: list[StepBlock] = field(default_factory=list)
    error: str | None = None

    def first(self, event_type: EventType) -> Event | None:
        """The first event of a type."""
        return next((event for event in self.events if event.type is event_type), None)

    def column(self, name: str) -> NDArray[Any]:
        """A value of all steps."""
        return np.concatenate([block[name] for block in self.steps])


@dataclass
class Plant:
    """A training with a fault.

    Args:
        model: Makes the model, already damaged if the fault is in it; called with the data.
        data: The data, already damaged if the fault is in them.
        policy: Of precision.
        learning_rate: Of SGD with a momentum of 0.9.
        seed: Of the initial weights.
        epochs: How often the data is trained on.
        sections: Further sections of the settings, and `loss_scale`, `loss` and `optimizer`.
    """

    model: Callable[[Data], Any]
    data: Data
    policy: str = "mixed_float16"
    learning_rate: float = 0.01
    seed: int = 0
    epochs: int = 2
    sections: Mapping[str, Any] = field(default_factory=dict)

    def train(self) -> Run:
        """Train, and collect what is said."""
        run = Run()
        trainer = Trainer(self._job())
        try:
            trainer.run(run.steps.append, run.events.append)
        except TrainingError as error:
            run.error = str(error)
        return run

    def explain(self, step: int) -> dict[str, Any]:
        """The explanation of a step, repeated from the start."""
        return StepExplainer(self._job(), None, step).run()

    def first_step(self) -> Any:
        """The training before its first step."""
        return Trainer(self._job()).untrained()

    def _job(self) -> Any:
        """The job of a new model, with the same initial weights each time."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(self.seed)
        data, sections = self.data, dict(self.sections)
        logits_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        loss = sections.pop("loss", logits_loss)
        optimizer = sections.pop("optimizer", None)
        if "loss_scale" in sections:
            sections["loss_scale"] = loss_scale_section(sections["loss_scale"])
        return keras_job(
            self.model(data),
            data=(data.x, data.y),
            loss=loss,
            loss_weights=None,
            optimizer=optimizer or keras.optimizers.SGD(self.learning_rate, momentum=0.9),
            metrics=(),
            validation_data=(data.x_val, data.y_val),
            validation_split=0.0,
            batch_size=BATCH,
            steps_per_epoch=None,
            shuffle=False,
            sections={
                "precision": {"policy": self.policy},
                "runtime": {"engine": "graph"},
                "telemetry": {"ranges": {"enabled": False}},
                "train": {"epochs": self.epochs, "seed": self.seed},
                **sections,
            },
        )


@dataclass(frozen=True)
class Expected:
    """The right answer: its attribution, and what its text must name."""

    attributions: Sequence[str]
    names: Sequence[str] = ()
    """Patterns that must all occur in the sentence or the advice."""
    never: Sequence[str] = ()
    """Patterns that would mislead."""


def judge(answer: Mapping[str, Any], expected: Expected) -> Outcome:
    """How right an answer with `attribution`, `sentence` and `advice` is."""
    text = f"{answer.get('sentence', '')} {answer.get('advice', '')}"
    said = f"{answer.get('attribution')}: {text}"[:300]
    if answer.get("attribution") in UNSURE or "cannot tell" in text.lower():
        return Outcome(Verdict.CANNOT_TELL, said)
    is_right = answer.get("attribution") in expected.attributions
    is_right = is_right and all(re.search(pattern, text) for pattern in expected.names)
    is_right = is_right and not any(re.search(pattern, text) for pattern in expected.never)
    return Outcome(Verdict.RIGHT if is_right else Verdict.WRONG, said)
