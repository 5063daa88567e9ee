"""Text as the numbers of its words or characters, by a layer that Keras loads without ampcore."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf
from keras import layers, ops

from ampcore.data.preparation.training_statistics import Array, TrainingStatistics, most_frequent
from ampspec.data.preprocessing import Tokens

UNKNOWN: Final = 1
"""Numbers of categories and words that stand for values that are not in the training examples."""
WORDS: Final = 2
"""The number of the first token: 0 is padding, 1 is UNKNOWN."""


def as_texts(rows: Array) -> list[str]:
    """The texts, empty where they are missing."""
    return [text if text is not None else "" for text in rows.reshape(-1)]


def _vectorization(tokens: Tokens, **options: Any) -> Any:
    is_words = tokens.split == "words"
    return layers.TextVectorization(
        standardize="lower_and_strip_punctuation" if is_words else None,
        split="whitespace" if is_words else "character",
        **options,
    )


def count_tokens(texts: Sequence[str], tokens: Tokens) -> Counter[str]:
    """The tokens of texts, split and spelled as the layer does, which knows ASCII letters only."""
    layer = _vectorization(tokens, ragged=True)
    batch = tf.constant(texts, tf.string)
    layer.adapt(batch)
    counts = np.bincount(layer(batch).flat_values)
    words = layer.get_vocabulary()
    return Counter({str(words[n]): int(counts[n]) for n in range(WORDS, len(counts)) if counts[n]})


def _lower(token: str, tokens: Tokens) -> str:
    return token.lower() if tokens.split == "words" else token


def kept_tokens(tokens: Tokens, statistics: TrainingStatistics) -> list[str]:
    """The most frequent tokens, words in small letters."""
    counts: Counter[str] = Counter()
    for token, occurrences in statistics.values.items():
        counts[_lower(token, tokens)] += occurrences
    return most_frequent(counts, tokens.max_tokens - WORDS)


def token_numbers(raw: Any, tokens: Tokens, statistics: TrainingStatistics) -> Any:
    """The numbers of tokens. Other spellings of a word, as ÜBER of über, have its number.

    Keras lowers ASCII letters only, so that they are in the vocabulary themselves.
    """
    kept = kept_tokens(tokens, statistics) or ["a"]
    number_of = {token: number for number, token in enumerate(kept, start=WORDS)}
    spellings = dict(number_of)
    for token in statistics.values:
        if (number := number_of.get(_lower(token, tokens))) is not None:
            spellings.setdefault(token, number)
    if tokens.split == "words":
        for token, number in number_of.items():
            for spelling in (token.capitalize(), token.upper()):
                spellings.setdefault(_lower_ascii(spelling), number)
    layer = _vectorization(
        tokens,
        # Padding and unknown tokens come first; with them, a token `[UNK]` is one like all others.
        vocabulary=["", "[UNK]", *spellings],
        output_mode="int",
        output_sequence_length=tokens.length,
        name=f"{raw.name}_tokens",
    )
    numbers = layer(raw)
    if len(spellings) > len(kept):
        numbers = ops.take(np.array([0, UNKNOWN, *spellings.values()], np.int32), numbers, axis=0)
    return ops.cast(numbers, "int32")


def _lower_ascii(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
