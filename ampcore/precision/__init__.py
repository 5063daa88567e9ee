"""Mixed precision as values: dtype policy, loss scale, finite check, all-or-nothing update."""

from ampcore.precision.finite import (
    all_finite,
    each_finite,
    each_value,
    exact_norm,
    global_norm,
    summed_rows,
)
from ampcore.precision.loss_scale import (
    CalibratedLossScale,
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleState,
    NoLossScale,
    from_spec,
    settled_scale,
)
from ampcore.precision.overwrites import is_overwritten, only_overwrites, without_overwrites
from ampcore.precision.policy import LayerPolicies, layer_policies
from ampcore.precision.transaction import Outcome, apply_if_finite, apply_together

__all__ = [
    "CalibratedLossScale",
    "DynamicLossScale",
    "FixedLossScale",
    "LayerPolicies",
    "LossScale",
    "LossScaleState",
    "NoLossScale",
    "Outcome",
    "all_finite",
    "apply_if_finite",
    "apply_together",
    "each_finite",
    "each_value",
    "exact_norm",
    "from_spec",
    "global_norm",
    "is_overwritten",
    "layer_policies",
    "only_overwrites",
    "settled_scale",
    "summed_rows",
    "without_overwrites",
]
