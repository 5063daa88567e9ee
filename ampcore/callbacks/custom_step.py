"""What a model's own `train_step` did in a step of `fit`: values, examples and optimizers."""

import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import keras
import tensorflow as tf

log = logging.getLogger(__name__)

COUNTED: Final = "_ampcore_examples"
"""The attribute of a model that holds the variable with the examples of all its steps."""

OUR_COLUMNS: Final = frozenset(
    {"step", "last_step", "loss_scale", "skipped", "learning_rate", "examples", "step_time_s"}
)
"""What the callback measures itself: a value of the step with such a name is `returned_NAME`."""


def has_custom_step(model: Any) -> bool:
    """Whether a model has a `train_step` of its own."""
    return type(model).train_step is not keras.Model.train_step


class CustomStep:
    """Reads each step of a model whose `train_step` is its own.

    Args:
        model: The compiled model. Its step counts examples from now on, which traces it again.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._has_warned = False
        self._optimizers = dict(_optimizers(model))
        self._iterations = self._current_iterations()
        self._means = {
            metric.name: metric
            for metric in model.metrics
            if isinstance(metric, keras.metrics.Mean)
        }
        self._sums = dict.fromkeys(self._means, (0.0, 0.0))
        self._counted = _counted_examples(model)
        self._examples = int(self._counted.numpy())

    def begin_epoch(self) -> None:
        """Keras sets its metrics to 0."""
        self._sums = dict.fromkeys(self._means, (0.0, 0.0))

    def row(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the steps since the last call, by column.

        What the step returned has its own names. Of a `keras.metrics.Mean`, which Keras returns as
        the mean of the epoch so far, it is the mean since the last call. Without a value `loss`,
        that column is the sum of those whose names end in `loss`.
        """
        self._warn_about_arrays(logs)
        values = {
            f"returned_{name}" if name in OUR_COLUMNS else name: self._since_last(
                name, float(value)
            )
            for name, value in logs.items()
            if keras.ops.ndim(value) == 0
        }
        losses = [value for name, value in values.items() if name.endswith("loss")]
        loss = values.pop("loss", sum(losses) if losses else math.nan)
        total = int(self._counted.numpy())
        examples, self._examples = total - self._examples, total
        return {"loss": loss, "examples": examples, **values, **self._learning_rates()}

    def loss_of_epoch(self, logs: Mapping[str, Any]) -> float:
        """The `loss` of the values that Keras has at the end of an epoch, as in `row`."""
        if "loss" in logs:
            return float(logs["loss"])
        losses = [
            float(value)
            for name, value in logs.items()
            if name.endswith("loss") and not name.startswith("val_")
        ]
        return sum(losses) if losses else math.nan

    def _warn_about_arrays(self, logs: Mapping[str, Any]) -> None:
        """Log once which returned values have no column, since they are not one number."""
        arrays = [name for name, value in logs.items() if keras.ops.ndim(value)]
        if arrays and not self._has_warned:
            self._has_warned = True
            log.warning(
                "the values %s of train_step are not sent: each has several numbers, and a "
                "column has one for each step",
                ", ".join(arrays),
            )

    def _since_last(self, name: str, value: float) -> float:
        metric = self._means.get(name)
        if metric is None:
            return value
        total, count = float(metric.total), float(metric.count)
        total_before, count_before = self._sums[name]
        self._sums[name] = total, count
        return (total - total_before) / (count - count_before) if count > count_before else value

    def _learning_rates(self) -> dict[str, float]:
        """The rates of the optimizers that were applied since the last call."""
        previous_iterations, self._iterations = self._iterations, self._current_iterations()
        rates = {
            name: float(optimizer.learning_rate)
            for name, optimizer in self._optimizers.items()
            if self._iterations[name] != previous_iterations[name]
        }
        if not rates:
            return {}
        by_name = {f"{name}_learning_rate": rate for name, rate in rates.items()}
        return {"learning_rate": next(iter(rates.values())), **(by_name if len(rates) > 1 else {})}

    def _current_iterations(self) -> dict[str, int]:
        return {
            name: int(optimizer.iterations.numpy()) for name, optimizer in self._optimizers.items()
        }


def scaled_optimizer(model: Any) -> Any:
    """The optimizer whose loss scale is shown: the first one that has any, else that of `fit`."""
    scaled = (
        optimizer
        for _, optimizer in _optimizers(model)
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    )
    return next(scaled, model.optimizer)


def _optimizers(model: Any) -> Iterator[tuple[str, Any]]:
    """The optimizers of a model by the names of its attributes; that of `compile` comes first."""
    seen: set[int] = set()
    for name, value in [("optimizer", model.optimizer), *vars(model).items()]:
        if isinstance(value, keras.optimizers.Optimizer) and id(value) not in seen:
            seen.add(id(value))
            yield name.removeprefix("_"), value


def _counted_examples(model: Any) -> Any:
    """The variable to which each step of the model adds its examples."""
    counted = getattr(model, COUNTED, None)
    if counted is not None:
        return counted
    counted = tf.Variable(0, dtype=tf.int64, trainable=False, name="examples")
    object.__setattr__(model, COUNTED, counted)
    step = model.train_step

    def counting(data: Any) -> Any:
        first = next((part for part in tf.nest.flatten(data) if tf.is_tensor(part)), None)
        if first is not None and first.shape.rank:
            counted.assign_add(tf.shape(first, tf.int64)[0])
        return step(data)

    object.__setattr__(model, "train_step", counting)
    model.make_train_function(force=True)
    return counted
