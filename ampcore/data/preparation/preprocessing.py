"""Preprocessing layers: from the columns of a file to the inputs of a model.

The same layers prepare the training data and are saved in front of the trained model, so that it
takes the raw data.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from numpy.typing import NDArray

from ampcore.data.examples import single_or_all
from ampcore.data.preparation.token_layers import (
    UNKNOWN,
    WORDS,
    as_texts,
    count_tokens,
    kept_tokens,
    token_numbers,
)
from ampcore.data.preparation.training_statistics import FLOAT32_ROUNDING, TrainingStatistics
from ampdata import Column
from ampspec.data.preprocessing import ColumnRescaling, Preprocessing
from ampspec.errors import InvalidData

Array = NDArray[Any]
PIXEL_MAX: Final = 255
NO_RESCALING: Final = (1.0, 0.0)
TEXTS: Final = 8192
"""The texts whose tokens are counted at a time."""


@dataclass(frozen=True)
class ColumnPlan:
    """A column of the data, and how it is prepared.

    Attributes:
        name: The name of the column, and of the saved model's input.
        column: Its shape and dtype.
        options: What the spec asks for.
    """

    name: str
    column: Column
    options: Preprocessing

    @property
    def is_text(self) -> bool:
        """Whether the values are text."""
        return self.column.dtype == "string"

    @property
    def categories(self) -> str | None:
        """How categories are encoded, if the values are categories."""
        if self.options.tokens is not None:
            return None
        return self.options.categories or ("one_hot" if self.is_text else None)

    @property
    def is_integer(self) -> bool:
        """Whether the prepared values are integers: keys of an embedding table."""
        options = self.options
        return options.keys or options.tokens is not None or self.categories == "integer"

    @property
    def needs_statistics(self) -> bool:
        """Whether the layers depend on the training examples."""
        options = self.options
        is_numeric = options.normalize or options.missing == "mean"
        return is_numeric or self.is_integer or self.categories is not None

    @property
    def is_cast_to_float32(self) -> bool:
        """Whether the values are numbers that are cast as they are."""
        options = self.options
        return not (self.is_integer or self.categories is not None or options.normalize)

    @property
    def preparation(self) -> str:
        """What is done to the values, in the words of a spec."""
        options = self.options
        if options.tokens is not None:
            return f"tokens: {options.tokens.split}"
        if self.categories is not None:
            return f"categories: {self.categories}"
        steps = {
            "keys": options.keys,
            f"missing: {options.missing}": options.missing != "error",
            "rescaling": options.rescaling is not None,
            "normalize": options.normalize,
        }
        return ", ".join(step for step, is_done in steps.items() if is_done)

    def count(self, rows: Array, statistics: TrainingStatistics) -> None:
        """Count the values of training rows, as far as the layers need them."""
        if self.options.tokens is not None:
            texts = as_texts(rows)
            for start in range(0, len(texts), TEXTS):
                part = texts[start : start + TEXTS]
                statistics.values.update(count_tokens(part, self.options.tokens))
        elif self.is_text:
            statistics.values.update(text for text in rows.reshape(-1) if text is not None)
        elif self.categories is not None:
            statistics.values.update(rows[~np.isnan(rows)].astype(np.int64).tolist())
        elif self.options.keys:
            statistics.values.update({int(rows.max(initial=0)): 1})
        elif self.options.normalize or self.options.missing == "mean":
            statistics.add_numbers(rows)

    def raw_input(self, name: str, statistics: TrainingStatistics) -> Any:
        """An input of the saved model: values as they are in the file.

        Args:
            name: Its name in Keras.
            statistics: Those of the training rows.
        """
        dtype = self._raw_dtype(statistics)
        return keras.Input(self.column.shape or (1,), dtype=dtype, name=name)

    def raw_values(self, rows: Array, dtype: str) -> Any:
        """The rows as a tensor for a `raw_input` of this dtype."""
        if self.is_text:
            values = tf.constant(as_texts(rows), tf.string)
        else:
            values = tf.constant(rows.astype(dtype, copy=False))
        return tf.reshape(values, (len(rows), *(self.column.shape or (1,))))

    def prepare(self, raw: Any, statistics: TrainingStatistics) -> Any:
        """The layers that prepare the column, named after the raw input."""
        options = self.options
        if options.tokens is not None:
            return token_numbers(raw, options.tokens, statistics)
        if self.categories is not None:
            return self._categories(raw, statistics)
        if options.keys:
            return ops.cast(raw, "int32")
        return self._numbers(raw, statistics)

    def vocabulary(self, statistics: TrainingStatistics) -> int | None:
        """The number of different integers that `prepare` makes; None for other values."""
        if self.options.keys:
            return int(max(statistics.values, default=0)) + 1
        if (tokens := self.options.tokens) is not None:
            return len(kept_tokens(tokens, statistics)) + WORDS
        if self.categories == "integer":
            return len(statistics.most_frequent(self.options.max_categories)) + UNKNOWN
        return None

    def _raw_dtype(self, statistics: TrainingStatistics) -> str:
        if self.is_text:
            return "string"
        if self.column.dtype == "image":
            return "uint8"
        if self.column.dtype in ("float16", "float64"):
            # Keras computes in float32; a value that has no place there keeps its dtype longer.
            return "float64" if self._exceeds_float32(statistics) else "float32"
        # Integers keep their dtype until the first layer.
        return "int64" if self.categories is not None else self.column.dtype

    def _exceeds_float32(self, statistics: TrainingStatistics) -> bool:
        """Whether float32 would lose what the layers need of the raw values."""
        if self.categories is not None:
            return max(map(abs, statistics.values), default=0) * FLOAT32_ROUNDING > 1
        return self.options.normalize and statistics.rounds_in_float32

    @property
    def _rescaling(self) -> tuple[float, float]:
        """The factor, and what is added."""
        rescaling = self.options.rescaling
        if isinstance(rescaling, ColumnRescaling):
            return rescaling.scale, rescaling.offset
        is_integer = not self.column.dtype.startswith("float")
        return (1 / PIXEL_MAX, 0.0) if rescaling == "pixels" and is_integer else NO_RESCALING

    def _categories(self, raw: Any, statistics: TrainingStatistics) -> Any:
        name, values = raw.name, statistics.most_frequent(self.options.max_categories)
        if self.column.dtype.startswith("float"):
            # Integers of which some are missing: a missing one is unknown.
            unknown = min(values, default=0) - 1
            raw = ops.cast(ops.where(ops.isnan(raw), unknown, raw), "int64")
        kind = layers.StringLookup if self.is_text else layers.IntegerLookup
        unknown_token = "[UNK]" if self.is_text else -1
        lookup = kind(
            # With Keras's own token in front, the same value of a person is one like all others.
            vocabulary=[unknown_token, *(values or ([""] if self.is_text else [0]))],
            oov_token=unknown_token,
            num_oov_indices=UNKNOWN,
            output_mode="one_hot" if self.categories == "one_hot" else "int",
            name=f"{name}_categories",
        )
        numbers = lookup(raw)
        return ops.cast(numbers, "int32") if self.categories == "integer" else numbers

    def _numbers(self, raw: Any, statistics: TrainingStatistics) -> Any:
        options, name, values = self.options, raw.name, raw
        uses_mean = options.normalize or options.missing == "mean"
        mean = statistics.mean if uses_mean else np.zeros(1)
        zero: Array = np.zeros_like(mean)
        if self._exceeds_float32(statistics):
            is_integer = not self.column.dtype.startswith("float")
            dtype = "int64" if is_integer else "float64"
            shift = statistics.shift.astype(dtype)
            values = ops.subtract(ops.cast(values, dtype), shift)
            mean, zero = statistics.mean_difference, -shift
        if keras.backend.standardize_dtype(values.dtype) != "float32":
            values = ops.cast(values, "float32")
        if options.missing != "error":
            replacement = mean if options.missing == "mean" else zero
            values = ops.where(ops.isnan(values), replacement.astype(np.float32), values)
        scale, offset = self._rescaling
        if (scale, offset) != NO_RESCALING:
            values = layers.Rescaling(scale, offset, name=f"{name}_rescaling")(values)
        if options.normalize:
            values = layers.Normalization(
                mean=(mean * scale + offset).tolist(),
                variance=(statistics.variance * scale**2).tolist(),
                name=f"{name}_normalization",
            )(values)
        return values


class PreparedInputs:
    """The layers between the columns of a file and the inputs of a model.

    Args:
        inputs: The columns of each input of the model, by its name. Several columns are joined.
        read: Reads the training rows of some columns, in any number of pieces.
        source: The name of the data in errors.

    Attributes:
        raw: By column, the input of `model` for its raw values. Names in Keras are numbers.
        model: From the list of raw columns to the inputs, one or a dictionary.
        vocabulary: For each input of integers, the number of different ones; else None.
        key_limits: By column of keys, the number of keys in the vocabulary of its input.
        categories: By column of categories, its different values and its values in the training
            rows.
    """

    def __init__(
        self,
        inputs: Mapping[str, Sequence[ColumnPlan]],
        read: Callable[[list[str]], Iterable[Mapping[str, Array]]],
        source: str,
    ) -> None:
        self._inputs = dict(inputs)
        self.plans = {plan.name: plan for plans in inputs.values() for plan in plans}
        _check_joined(self._inputs, source)
        statistics = {name: TrainingStatistics() for name in self.plans}
        counted = [name for name, plan in self.plans.items() if plan.needs_statistics]
        for chunk in read(counted) if counted else ():
            for name in counted:
                self.plans[name].count(chunk[name], statistics[name])
        self.categories = {
            name: (len(statistics[name].values), statistics[name].values.total())
            for name, plan in self.plans.items()
            if plan.categories is not None
        }
        self.raw = {
            name: plan.raw_input(f"column_{number}", statistics[name])
            for number, (name, plan) in enumerate(self.plans.items())
        }
        prepared = {
            name: plan.prepare(self.raw[name], statistics[name])
            for name, plan in self.plans.items()
        }
        outputs = {
            name: _join(f"input_{number}", [prepared[plan.name] for plan in plans])
            for number, (name, plans) in enumerate(self._inputs.items())
        }
        self.model = keras.Model(
            list(self.raw.values()), single_or_all(outputs), name="preprocessing"
        )
        self.vocabulary = {
            name: max((plan.vocabulary(statistics[plan.name]) or 0) for plan in plans) or None
            for name, plans in self._inputs.items()
        }
        self.key_limits = {
            plan.name: limit
            for name, plans in self._inputs.items()
            for plan in plans
            if plan.options.keys and (limit := self.vocabulary[name]) is not None
        }
        self._call = tf.function(self.model, autograph=False, reduce_retracing=True)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.plans)

    @property
    def specs(self) -> dict[str, tf.TensorSpec]:
        """The shape of one example and the dtype of each input."""
        outputs = self.model.output
        by_name = outputs if isinstance(outputs, dict) else {next(iter(self._inputs)): outputs}
        return {
            name: tf.TensorSpec(tensor.shape[1:], tensor.dtype) for name, tensor in by_name.items()
        }

    def __call__(self, rows: Mapping[str, Array]) -> Any:
        """The inputs of these rows, as NumPy arrays: one or a dictionary."""
        with tf.device("CPU:0"):
            outputs = self._call(
                [
                    plan.raw_values(rows[name], self.raw[name].dtype)
                    for name, plan in self.plans.items()
                ]
            )
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), outputs)

    def in_front_of(self, model: Any) -> Any:
        """A Keras model that takes the raw columns, by their names, and returns what `model` does.

        The keys of its inputs are the names of the columns. Its input layers have the same names
        where Keras allows them, and numbers elsewhere.
        """
        names = _input_names(list(self.raw), {self.model.name, model.name})
        inputs = {
            column: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=names[column])
            for column, tensor in self.raw.items()
        }
        outputs = model(self.model(list(inputs.values())))
        if any(column != name for column, name in names.items()):
            with warnings.catch_warnings():
                # Keras would like the keys to be the names, which it refuses.
                warnings.simplefilter("ignore", UserWarning)
                return keras.Model(inputs, outputs, name=model.name)
        # Of a list it takes a dictionary, too, and keeps the order of the file.
        tensors = list(inputs.values())
        return keras.Model(tensors if len(tensors) > 1 else tensors[0], outputs, name=model.name)


def _input_names(columns: Sequence[str], layer_names: set[str]) -> dict[str, str]:
    """The name of the input layer of each column: that of the column, where Keras allows it."""
    numbered = (f"column_{number}" for number in count())
    unused = (name for name in numbered if name not in {*columns, *layer_names})
    return {
        column: column
        if column and "/" not in column and column not in layer_names
        else next(unused)
        for column in columns
    }


def _check_joined(inputs: Mapping[str, Sequence[ColumnPlan]], source: str) -> None:
    for name, plans in inputs.items():
        if len(plans) > 1 and any(len(plan.column.shape) > 1 for plan in plans):
            raise InvalidData(
                source,
                f"inputs.{name}",
                expected="one array with several axes, or any number of columns of numbers",
                received=", ".join(plan.name for plan in plans),
            )
        if len({plan.is_integer for plan in plans}) > 1:
            integers = ", ".join(plan.name for plan in plans if plan.is_integer)
            raise InvalidData(
                source,
                f"inputs.{name}",
                expected="columns that are all numbers, or all keys of an embedding table",
                received=f"both: {integers} hold keys",
            )


def _join(name: str, tensors: list[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else layers.Concatenate(name=name)(tensors)
