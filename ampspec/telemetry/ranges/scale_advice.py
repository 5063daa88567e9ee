"""The loss scale for a spec whose own one does not suit the gradients."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ampspec.telemetry.ranges.range_report import ScaleReport


def loss_scale_advice(
    scales: Iterable[ScaleReport], loss_scale: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The section `loss_scale` that suits the gradients; None if that of the job does.

    A dynamic loss scale stays dynamic, and begins lower or higher; its limits include that.

    Args:
        scales: Those of the networks, of a report.
        loss_scale: The section of the job's spec.
    """
    exponents = [
        scale.best_exponent
        for scale in scales
        if scale.lowest is not None and scale.best_exponent != scale.used_exponent
    ]
    if not exponents:
        return None
    scale = 2.0 ** min(exponents)
    if loss_scale.get("mode") == "dynamic":
        limits = {
            name: choose(scale, loss_scale[name])
            for name, choose in (("minimum", min), ("maximum", max))
            if name in loss_scale
        }
        return {**loss_scale, "initial": scale, **limits}
    return {"mode": "fixed", "scale": scale}


def finite_below(
    overflows: Iterable[Mapping[str, Any]], networks: Collection[str]
) -> dict[str, float]:
    """By network, the largest loss scale at which the gradients of every skipped step are finite.

    Args:
        overflows: The data of events `overflow`; others than those of a loss scale say nothing.
        networks: The names of the job's networks: with one, events do not name it.
    """
    scales: dict[str, float] = {}
    for data in overflows:
        if data.get("diagnosis") != "scale":
            continue
        finite = data.get("finite_below")
        by_network = finite if isinstance(finite, Mapping) else dict.fromkeys(networks, finite)
        for network, scale in by_network.items():
            if isinstance(scale, int | float) and scale > 0.0:
                scales[network] = min(scale, scales.get(network, scale))
    return scales
