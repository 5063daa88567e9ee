"""Mixed precision as values: dtype policy, loss scale, finite check, all-or-nothing update."""

from ampcore.precision.finite import (
    all_finite,
    clip_by_global_norm,
    each_finite,
    exact_norm,
    global_norm,
    map_values,
    sum_duplicate_rows,
)
from ampcore.precision.keras_optimizer import LossScaleOptimizer
from ampcore.precision.loss_scale import (
    CalibratedLossScale,
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleState,
    LossScaleStates,
    NoLossScale,
    from_spec,
    resolve_loss_scale,
)
from ampcore.precision.overwrite_with_gradient import (
    is_overwritten,
    split_overwrites,
    without_overwrites,
)
from ampcore.precision.policy import LayerPolicies, apply_policy, layer_policies
from ampcore.precision.transaction import Outcome, apply_all_if_finite, apply_if_finite

__all__ = [
    "CalibratedLossScale",
    "DynamicLossScale",
    "FixedLossScale",
    "LayerPolicies",
    "LossScale",
    "LossScaleOptimizer",
    "LossScaleState",
    "LossScaleStates",
    "NoLossScale",
    "Outcome",
    "all_finite",
    "apply_all_if_finite",
    "apply_if_finite",
    "apply_policy",
    "clip_by_global_norm",
    "each_finite",
    "exact_norm",
    "from_spec",
    "global_norm",
    "is_overwritten",
    "layer_policies",
    "map_values",
    "resolve_loss_scale",
    "split_overwrites",
    "sum_duplicate_rows",
    "without_overwrites",
]
