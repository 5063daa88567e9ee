"""Finds the layers and variables of a replayed step that are not finite, and the first of them.

The backward pass reaches a layer's output, then its variables, then the layer before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampcore.diagnostics.layer_outputs import LayerRef, variable_owners
from ampcore.diagnostics.steps.replay import Replay, ReplayResult, TensorStats, has_nonfinite

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class VariableInfo:
    """One trainable variable, and when the backward pass reaches it."""

    network: str
    variable: str
    size: int
    layer: LayerRef | None
    """The layer that it belongs to, if it was called in the step."""
    call: int
    """The index of the layer's last call; -1 without one: backward reaches it last."""

    def to_json(self, stats: TensorStats, scale: float) -> JsonObject:
        """JSON values; `largest` is a magnitude of the unscaled gradient."""
        infinite, nan, largest = stats.tolist()
        return {
            "network": self.network,
            "variable": self.variable,
            "size": self.size,
            "inf": int(infinite),
            "nan": int(nan),
            "largest": largest / scale,
        }


def variable_infos(replay: Replay) -> list[list[VariableInfo]]:
    """For each network its variables, in the order of `ReplayResult.variables`.

    `replay` must have been called before.
    """
    last_call = {layer_ref: number for number, layer_ref in enumerate(replay.calls)}
    owners = variable_owners(replay.task)
    rows = []
    for network in replay.task.networks:
        infos = []
        for variable in network.model.trainable_variables:
            layer_ref = owners.get(id(variable))
            call = -1 if layer_ref is None else last_call.get(layer_ref, -1)
            layer = layer_ref if call >= 0 else None
            size = int(np.prod(variable.shape))
            infos.append(VariableInfo(network.name, variable.path, size, layer, call))
        rows.append(infos)
    return rows


def nonfinite_gradients(
    replay: Replay, stats: Sequence[TensorStats], scales: Sequence[float]
) -> list[JsonObject]:
    """The variables whose gradients are not finite as JSON values, in the order of backward."""
    rows = [
        (variable_info.call, variable_info.to_json(gradient_stats, scale))
        for infos, of_network, scale in zip(variable_infos(replay), stats, scales, strict=True)
        for variable_info, gradient_stats in zip(infos, of_network, strict=True)
        if has_nonfinite(gradient_stats)
    ]
    return [info for _, info in sorted(rows, key=lambda row: -row[0])]


def first_nonfinite(replay: Replay, replayed: ReplayResult) -> JsonObject | None:
    """The first non-finite value of the step, as JSON values; None if all values are finite.

    In the forward pass it is a layer's output or the loss; in the backward pass of the first
    network with such gradients it is the gradient by a variable or by a layer's output.
    """
    bad_outputs = np.flatnonzero(_nonfinite_rows(replayed.forward))
    if len(bad_outputs):
        return _call_info(replay, int(bad_outputs[0]), "forward", replayed.forward)
    for network, loss in zip(replay.task.networks, replayed.losses, strict=True):
        if not np.isfinite(loss):
            return {"network": network.name, "pass": "forward", "layer": None}
    for number, finite in enumerate(replayed.finite):
        if not finite:
            return _first_nonfinite_backward(replay, replayed, number)
    return None


def _first_nonfinite_backward(replay: Replay, replayed: ReplayResult, number: int) -> JsonObject:
    infos, stats = variable_infos(replay)[number], replayed.variables[number]
    # max returns the first of equals; within a layer backward reaches the later variables first,
    # because the bias is added last.
    bad = [index for index in range(len(infos)) if has_nonfinite(stats[index])]
    last = max(reversed(bad), key=lambda index: infos[index].call)
    variable_info = infos[last]
    backward = replayed.backward[number]
    bad_calls = np.flatnonzero(_nonfinite_rows(backward))
    # The gradient by a layer's output is computed before those by its variables.
    if len(bad_calls) and bad_calls[-1] >= variable_info.call:
        return _call_info(replay, int(bad_calls[-1]), "backward", backward)
    info = variable_info.to_json(stats[last], 1.0)
    layer = variable_info.layer
    layer_ref = {"layer": layer.path, "kind": layer.kind} if layer else {"layer": None}
    counts = {name: info[name] for name in ("inf", "nan", "largest")}
    return {
        "network": variable_info.network,
        "pass": "backward",
        **layer_ref,
        "variable": variable_info.variable,
        **counts,
    }


def _call_info(replay: Replay, call: int, direction: str, stats: TensorStats) -> JsonObject:
    layer_ref = replay.calls[call]
    infinite, nan, largest = stats[call].tolist()
    return {
        "network": layer_ref.network,
        "pass": direction,
        "layer": layer_ref.path,
        "kind": layer_ref.kind,
        **({"part": "loss"} if call in replay.loss_calls else {}),
        "dtype": replay.dtypes[call],
        "inf": int(infinite),
        "nan": int(nan),
        "largest": largest,
    }


def _nonfinite_rows(stats: TensorStats) -> Any:
    return stats[:, :2].any(axis=1)
