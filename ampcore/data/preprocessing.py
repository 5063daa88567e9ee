"""Preprocessing layers: from the columns of a file to the inputs of a model.

The same layers prepare the training data and are saved in front of the trained model, so that it
takes the raw data.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from numpy.typing import NDArray

from ampcore.data.examples import single_or_all
from ampcore.errors import InvalidData
from ampcore.formats import Column
from ampcore.spec.preprocessing import Preprocessing, Rescaling, Tokens

Array = NDArray[Any]
CONCATENATED: Final = "features"
"""The name of an input that is made of several columns."""
PIXEL_MAX: Final = 255
NO_RESCALING: Final = (1.0, 0.0)
UNKNOWN: Final = 1
"""Numbers of categories and words that stand for values that are not in the training examples."""


@dataclass
class ColumnStatistics:
    """What the training examples tell about one column.

    Attributes:
        count: The numbers seen, without missing ones, for each channel.
        total: Their sum, float64.
        squares: The sum of the squares of their differences from `shift`.
        shift: About their mean: the mean of the first rows.
        values: How often each category or token occurs.
    """

    count: float = 0.0
    total: Any = 0.0
    squares: Any = 0.0
    shift: Any = None
    values: Counter[Any] = field(default_factory=Counter)

    def add_numbers(self, rows: Array) -> None:
        """Count the numbers of more rows, for each index of the last axis."""
        numbers = rows.astype(np.float64)
        numbers = numbers.reshape(-1, numbers.shape[-1] if numbers.ndim > 1 else 1)
        known = ~np.isnan(numbers)
        if self.shift is None:
            # Without it, the variance of large numbers would lose its digits.
            self.shift = np.nan_to_num(numbers[:1024]).mean(axis=0)
        shifted = np.where(known, numbers - self.shift, 0.0)
        self.count = self.count + known.sum(axis=0)
        self.total = self.total + shifted.sum(axis=0)
        self.squares = self.squares + (shifted**2).sum(axis=0)

    @property
    def mean(self) -> Array:
        """The mean of each channel."""
        mean: Array = self.shift + self.total / np.maximum(self.count, 1)
        return mean

    @property
    def variance(self) -> Array:
        """The variance of each channel; 1 for a constant, so that it becomes 0."""
        count = np.maximum(self.count, 1)
        variance: Array = self.squares / count - (self.total / count) ** 2
        return np.where(variance > 0, variance, 1.0)

    def most_frequent(self, count: int) -> list[Any]:
        """The most frequent values, in their own order."""
        kept = self.values.most_common()
        kept.sort(key=lambda row: (-row[1], row[0]))
        return sorted(value for value, _ in kept[:count])


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

    def count(self, rows: Array, statistics: ColumnStatistics) -> None:
        """Count the values of training rows, as far as the layers need them."""
        if (tokens := self.options.tokens) is not None:
            for text in rows.reshape(-1):
                statistics.values.update(_split(text or "", tokens.split))
        elif self.categories is not None:
            values = (value for value in rows.reshape(-1).tolist() if value is not None)
            statistics.values.update(values)
        elif self.options.keys:
            statistics.values.update({int(rows.max(initial=0)): 1})
        elif self.options.normalize or self.options.missing == "mean":
            statistics.add_numbers(rows)

    def raw_input(self) -> Any:
        """The input of the saved model: values as they are in the file."""
        shape = self.column.shape or (1,)
        return keras.Input(shape, dtype=self._raw_dtype, name=self.name)

    def raw_values(self, rows: Array) -> Any:
        """The rows as a tensor for `raw_input`."""
        if self.is_text:
            texts = [text if text is not None else "" for text in rows.reshape(-1)]
            values = tf.constant(texts, tf.string)
        else:
            values = tf.constant(rows.astype(self._raw_dtype, copy=False))
        return tf.reshape(values, (len(rows), *(self.column.shape or (1,))))

    def prepare(self, raw: Any, statistics: ColumnStatistics) -> Any:
        """The layers that prepare the column."""
        options = self.options
        if options.tokens is not None:
            tokens = _vectorization(self.name, options.tokens, statistics)
            return ops.cast(tokens(raw), "int32")
        if self.categories is not None:
            found = self._lookup(statistics)(raw)
            return ops.cast(found, "int32") if self.categories == "integer" else found
        if options.keys:
            return ops.cast(raw, "int32")
        return self._numbers(raw, statistics)

    def vocabulary(self, statistics: ColumnStatistics) -> int | None:
        """The number of different integers that `prepare` makes; None for other values."""
        if self.options.keys:
            return int(max(statistics.values, default=0)) + 1
        if self.options.tokens is not None:
            known = len(statistics.most_frequent(self.options.tokens.max_tokens - 2))
            return known + 2
        if self.categories == "integer":
            return len(statistics.most_frequent(self.options.max_categories)) + UNKNOWN
        return None

    @property
    def _raw_dtype(self) -> str:
        if self.is_text:
            return "string"
        if self.column.dtype == "image":
            return "uint8"
        if self.categories is not None:
            return "int64"
        # Keras computes in float32; integers keep their dtype until the first layer.
        return "float32" if self.column.dtype in ("float16", "float64") else self.column.dtype

    @property
    def _rescaling(self) -> tuple[float, float]:
        """The factor, and what is added."""
        rescaling = self.options.rescaling
        if isinstance(rescaling, Rescaling):
            return rescaling.scale, rescaling.offset
        is_integer = not self.column.dtype.startswith("float")
        return (1 / PIXEL_MAX, 0.0) if rescaling == "pixels" and is_integer else NO_RESCALING

    def _lookup(self, statistics: ColumnStatistics) -> Any:
        values = statistics.most_frequent(self.options.max_categories)
        kind = layers.StringLookup if self.is_text else layers.IntegerLookup
        mode = "one_hot" if self.categories == "one_hot" else "int"
        return kind(
            vocabulary=values or ([""] if self.is_text else [0]),
            num_oov_indices=UNKNOWN,
            output_mode=mode,
            name=f"{self.name}_categories",
        )

    def _numbers(self, raw: Any, statistics: ColumnStatistics) -> Any:
        options, values = self.options, raw
        if self._raw_dtype != "float32":
            values = ops.cast(values, "float32")
        if options.missing != "error":
            replacement = statistics.mean[0] if options.missing == "mean" else 0.0
            values = ops.where(ops.isnan(values), float(replacement), values)
        scale, offset = self._rescaling
        if (scale, offset) != NO_RESCALING:
            values = layers.Rescaling(scale, offset, name=f"{self.name}_rescaling")(values)
        if options.normalize:
            values = layers.Normalization(
                mean=(statistics.mean * scale + offset).tolist(),
                variance=(statistics.variance * scale**2).tolist(),
                name=f"{self.name}_normalization",
            )(values)
        return values


class PreparedInputs:
    """The layers between the columns of a file and the inputs of a model.

    Args:
        inputs: The columns of each input of the model, by its name. Several columns are joined.
        read: Reads the training rows of some columns, in any number of pieces.
        source: The name of the data in errors.

    Attributes:
        model: From the raw columns by name to the inputs, one or a dictionary.
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
        statistics = {name: ColumnStatistics() for name in self.plans}
        counted = [name for name, plan in self.plans.items() if plan.needs_statistics]
        for chunk in read(counted) if counted else ():
            for name in counted:
                self.plans[name].count(chunk[name], statistics[name])
        self.categories = {
            name: (len(statistics[name].values), statistics[name].values.total())
            for name, plan in self.plans.items()
            if plan.categories is not None
        }
        raw = {name: plan.raw_input() for name, plan in self.plans.items()}
        prepared = {
            name: plan.prepare(raw[name], statistics[name]) for name, plan in self.plans.items()
        }
        outputs = {name: _join(name, plans, prepared) for name, plans in self._inputs.items()}
        self.model = keras.Model(single_or_all(raw), single_or_all(outputs), name="preprocessing")
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
        named = outputs if isinstance(outputs, dict) else {next(iter(self._inputs)): outputs}
        return {
            name: tf.TensorSpec(tensor.shape[1:], tensor.dtype) for name, tensor in named.items()
        }

    def __call__(self, rows: Mapping[str, Array]) -> Any:
        """The inputs of these rows, as NumPy arrays: one or a dictionary."""
        with tf.device("CPU:0"):
            raw = {name: plan.raw_values(rows[name]) for name, plan in self.plans.items()}
            outputs = self._call(single_or_all(raw))
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), outputs)


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


def _join(name: str, plans: Sequence[ColumnPlan], prepared: Mapping[str, Any]) -> Any:
    tensors = [prepared[plan.name] for plan in plans]
    if len(tensors) == 1:
        return tensors[0]
    return layers.Concatenate(name=f"{name}_joined")(tensors)


def _vectorization(name: str, tokens: Tokens, statistics: ColumnStatistics) -> Any:
    return layers.TextVectorization(
        # Padding and unknown tokens come first, added by the layer.
        vocabulary=statistics.most_frequent(tokens.max_tokens - 2) or ["a"],
        standardize="lower_and_strip_punctuation" if tokens.split == "words" else None,
        split="whitespace" if tokens.split == "words" else "character",
        output_mode="int",
        output_sequence_length=tokens.length,
        name=f"{name}_tokens",
    )


_PUNCTUATION: Final = str.maketrans("", "", "!\"#$%&()\\*+,-./:;<=>?@[\\]^_`{|}~'")


def _split(text: str, split: str) -> list[str]:
    """The tokens of a text, as the layer splits it."""
    if split == "characters":
        return list(text)
    return text.lower().translate(_PUNCTUATION).split()
