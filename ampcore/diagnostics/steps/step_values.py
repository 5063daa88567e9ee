"""The layers and variables of a replayed step as rows: counts of non-finite values, largest ones.

The chain of layers is that of the first micro-batch that is not finite, or of the first one.
"""

import math
from typing import Any, Final

import tensorflow as tf

from ampcore.diagnostics.steps.nonfinite_origin import JsonObject, variable_infos
from ampcore.diagnostics.steps.replay import Replay, ReplayResult, TensorStats

MAX_ROWS: Final = 400
"""The maximum number of layers, and of variables; the others are only counted."""


def layer_rows(
    replay: Replay, replayed: ReplayResult, first: JsonObject | None
) -> list[JsonObject]:
    """The calls of layers in the order of the forward pass.

    `forward` describes a layer's output, `backward` the gradient by it, of the scaled losses of all
    networks. `first` is the result of `first_nonfinite`; its layer has `is_first`.
    """
    rows: list[JsonObject] = []
    for number, (layer, dtype) in enumerate(zip(replay.calls, replay.dtypes, strict=True)):
        backward = replayed.backward[:, number]
        rows.append(
            {
                "network": layer.network,
                "layer": layer.path,
                "kind": layer.kind,
                **({"part": "loss"} if number in replay.loss_calls else {}),
                "dtype": dtype,
                "forward": _counts(replayed.forward[number]),
                "backward": {
                    **_counts(backward.sum(axis=0)),
                    "largest": float(backward[:, 2].max(initial=0.0)),
                },
            }
        )
    if (index := _first_index(rows, first)) is not None:
        rows[index]["is_first"] = True
    return rows


def variable_rows(replay: Replay, replayed: ReplayResult, scales: list[float]) -> list[JsonObject]:
    """The gradients of all variables: non-finite ones first, then by their largest magnitude.

    `largest` is a magnitude of the unscaled gradient, `largest_value` one of the variable itself.
    """
    rows: list[JsonObject] = []
    networks = zip(
        variable_infos(replay), replayed.variables, scales, replay.task.networks, strict=True
    )
    for infos, stats, scale, network in networks:
        variables = network.model.trainable_variables
        for info, gradient_stats, variable in zip(infos, stats, variables, strict=True):
            value = variable.value
            largest = float(tf.reduce_max(tf.abs(value))) if info.size else 0.0
            rows.append({**info.to_json(gradient_stats, scale), "largest_value": largest})
    return sorted(rows, key=lambda row: (-(row["inf"] + row["nan"]), -row["largest"]))


def grad_norm(replay: Replay, replayed: ReplayResult, scales: list[float]) -> float:
    """The global L2 norm of the unscaled gradients; NaN or infinity if one is not finite."""
    total = 0.0
    for grads, scale in zip(replayed.gradients, scales, strict=True):
        for grad in grads:
            if grad is not None:
                values: Any = grad.values if isinstance(grad, tf.IndexedSlices) else grad
                total += float(tf.norm(tf.cast(values, tf.float64) / scale)) ** 2
    return math.sqrt(total)


def _counts(stats: TensorStats) -> JsonObject:
    infinite, nan, largest = stats.tolist()
    return {"inf": int(infinite), "nan": int(nan), "largest": largest}


def _first_index(rows: list[JsonObject], first: JsonObject | None) -> int | None:
    if first is None or first.get("layer") is None:
        return None
    side = first["pass"]
    order = range(len(rows)) if side == "forward" else reversed(range(len(rows)))
    matching = [
        index
        for index in order
        if all(rows[index].get(name) == first.get(name) for name in ("network", "layer", "part"))
    ]
    bad = [index for index in matching if rows[index][side]["inf"] + rows[index][side]["nan"]]
    return next(iter(bad or matching), None)
