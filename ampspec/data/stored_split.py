"""Reads stored specs so that they keep their validation rows."""

from collections.abc import Mapping
from typing import Any, Final

FIELD: Final = "split_seed"
FIXED_ROWS: Final = ("digits", "text")
"""Kinds of data whose validation rows are always the last ones."""


def with_split_seed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A stored spec with its `data.split_seed`.

    Versions before 0.6 had no such field: `train.seed` selected the validation rows and generated
    synthetic data. A spec that this version has normalized always has the field.
    """
    data = document.get("data")
    if not isinstance(data, Mapping) or FIELD in data or data.get("kind") in FIXED_ROWS:
        return dict(document)
    train = document.get("train")
    seed = train.get("seed", 0) if isinstance(train, Mapping) else 0
    return {**document, "data": {**data, FIELD: seed}}
