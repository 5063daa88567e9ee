"""Which layers and variables of a replayed step went non-finite, and which of them first.

The backward pass comes to a layer's output, then to its variables, then to the layer before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcore.diagnose.layer_outputs import LayerPlace
from ampcore.diagnose.replay import Figures, Replay, Replayed, has_bad
from ampcore.precision.places import places

Facts = dict[str, Any]


@dataclass(frozen=True)
class Gradient:
    """One variable that gradients are taken by, and when the backward pass comes to it."""

    network: str
    variable: str
    size: int
    layer: LayerPlace | None
    """The layer that it belongs to, when that was called in the step."""
    call: int
    """The number of that layer's last call; -1 without one, as the forward pass begins there."""

    def facts(self, figures: Figures, scale: float) -> Facts:
        """JSON facts; `largest` is a magnitude of the unscaled gradient."""
        infinite, nan, largest = figures.tolist()
        return {
            "network": self.network,
            "variable": self.variable,
            "size": self.size,
            "inf": int(infinite),
            "nan": int(nan),
            "largest": largest / scale,
        }


def gradients_of(replay: Replay) -> list[list[Gradient]]:
    """For each network its variables, in the order of `Replayed.variables`.

    `replay` has been called.
    """
    last_call = {place: number for number, place in enumerate(replay.calls)}
    rows = []
    for network in replay.task.networks:
        # A layer comes before its parts, so that the innermost one stays.
        owners = {
            id(variable): LayerPlace(network.name, found.facts.path, found.facts.kind)
            for found in places(network.model)
            for variable in found.layer.trainable_variables
        }
        own = []
        for variable in network.model.trainable_variables:
            place = owners.get(id(variable))
            call = -1 if place is None else last_call.get(place, -1)
            layer = place if call >= 0 else None
            size = int(np.prod(variable.shape))
            own.append(Gradient(network.name, variable.path, size, layer, call))
        rows.append(own)
    return rows


def bad_gradients(
    replay: Replay, figures: Sequence[Figures], scales: Sequence[float]
) -> list[Facts]:
    """The facts of the variables whose gradients were not finite, in the order of backward."""
    rows = [
        (gradient.call, gradient.facts(own, scale))
        for gradients, of_network, scale in zip(gradients_of(replay), figures, scales, strict=True)
        for gradient, own in zip(gradients, of_network, strict=True)
        if has_bad(own)
    ]
    return [facts for _, facts in sorted(rows, key=lambda row: -row[0])]


def first_layer(replay: Replay, replayed: Replayed) -> Facts | None:
    """The facts of what went non-finite first; None when everything is finite.

    In the forward pass that is a layer's output, or the loss; in the backward pass of the first
    network that has such gradients, a variable's gradient or the gradient by a layer's output.
    """
    bad_outputs = np.flatnonzero(_bad(replayed.forward))
    if len(bad_outputs):
        return _of_call(replay, int(bad_outputs[0]), "forward", replayed.forward)
    for network, loss in zip(replay.task.networks, replayed.losses, strict=True):
        if not np.isfinite(loss):
            return {"network": network.name, "pass": "forward", "layer": None}
    for number, finite in enumerate(replayed.finite):
        if not finite:
            return _first_backward(replay, replayed, number)
    return None


def _first_backward(replay: Replay, replayed: Replayed, number: int) -> Facts:
    gradients, figures = gradients_of(replay)[number], replayed.variables[number]
    # max takes the first of equals, and a layer's later variables come first in backward: its
    # bias is added last.
    bad = [index for index in range(len(gradients)) if has_bad(figures[index])]
    last = max(reversed(bad), key=lambda index: gradients[index].call)
    gradient = gradients[last]
    backward = replayed.backward[number]
    bad_calls = np.flatnonzero(_bad(backward))
    # The gradient by a layer's output is there before those by its variables.
    if len(bad_calls) and bad_calls[-1] >= gradient.call:
        return _of_call(replay, int(bad_calls[-1]), "backward", backward)
    facts = gradient.facts(figures[last], 1.0)
    layer = gradient.layer
    place = {"layer": layer.path, "kind": layer.kind} if layer else {"layer": None}
    counts = {name: facts[name] for name in ("inf", "nan", "largest")}
    return {
        "network": gradient.network,
        "pass": "backward",
        **place,
        "variable": gradient.variable,
        **counts,
    }


def _of_call(replay: Replay, call: int, direction: str, figures: Figures) -> Facts:
    place = replay.calls[call]
    infinite, nan, largest = figures[call].tolist()
    return {
        "network": place.network,
        "pass": direction,
        "layer": place.path,
        "kind": place.kind,
        "dtype": replay.dtypes[call],
        "inf": int(infinite),
        "nan": int(nan),
        "largest": largest,
    }


def _bad(figures: Figures) -> Any:
    return figures[:, :2].any(axis=1)
