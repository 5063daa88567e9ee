"""Splits the variables of a model into embedding tables and the others."""

from collections.abc import Iterable
from typing import Any


def split_embedding_variables(variables: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The embedding tables among these variables, and the others, each in their order.

    A variable is an embedding table if it has a true attribute `is_embedding`, or if the last part
    of its path is `embeddings`, as in the layer Embedding of Keras.

    Args:
        variables: Such as `model.trainable_variables`.
    """
    tables: list[Any] = []
    weights: list[Any] = []
    for variable in variables:
        (tables if _is_embedding(variable) else weights).append(variable)
    return tables, weights


def _is_embedding(variable: Any) -> bool:
    marked = getattr(variable, "is_embedding", None)
    if marked is not None:
        return bool(marked)
    path = str(getattr(variable, "path", None) or getattr(variable, "name", ""))
    return path.rpartition("/")[2].partition(":")[0] == "embeddings"
