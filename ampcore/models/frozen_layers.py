"""Freezes layers of a task: their weights take no gradients and have no optimizer slots.

As in Keras, a frozen normalization computes with its statistics and does not change them; a frozen
dropout still drops.
"""

import re
from collections.abc import Sequence

from ampcore.models.task import Task
from ampcore.precision.layers.layer_paths import walk_layers
from ampspec.documents.text import join_names
from ampspec.errors import InvalidModel

FIELD = "init.freeze"
MAX_PATHS = 8
"""The maximum number of paths in a message."""


def freeze_layers(task: Task, patterns: Sequence[str]) -> None:
    """Freeze the layers whose path one of the regular expressions matches.

    Raises InvalidModel if an expression matches no layer, or a network has nothing left to train.
    """
    if not patterns:
        return
    layers = [
        (entry.info.path, entry.layer)
        for network in task.networks
        for entry in walk_layers(network.model)
    ]
    check_patterns(FIELD, patterns, [path for path, _ in layers])
    for path, layer in layers:
        if any(re.search(pattern, path) for pattern in patterns):
            layer.trainable = False
    for network in task.networks:
        if not network.model.trainable_variables:
            raise InvalidModel(
                FIELD,
                expected=f"at least one layer to train in the network {network.name}",
                received=f"expressions that match all of them: {join_names(patterns, MAX_PATHS)}",
            )


def check_patterns(field: str, patterns: Sequence[str], paths: Sequence[str]) -> None:
    """Raise InvalidModel for a regular expression that matches no path."""
    for index, pattern in enumerate(patterns):
        if not any(re.search(pattern, path) for path in paths):
            raise InvalidModel(
                f"{field}/{index}",
                expected="a regular expression found in the path of at least one layer "
                f"({join_names(paths, MAX_PATHS)})",
                received=repr(pattern),
            )
