"""ampcore: mixed-precision training with the box open.

Importing this loads no TensorFlow; the names below that need it are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ampcore.precision import (
        CalibratedLossScale,
        DynamicLossScale,
        FixedLossScale,
        LossScaleState,
        NoLossScale,
        apply_if_finite,
        apply_together,
    )
    from ampcore.series import Event, StepBlock
    from ampcore.spec import JobSpec
    from ampcore.train import Trainer, TrainResult

__version__ = "0.5.0"

_HOMES = {
    "CalibratedLossScale": "ampcore.precision",
    "DynamicLossScale": "ampcore.precision",
    "Event": "ampcore.series",
    "FixedLossScale": "ampcore.precision",
    "JobSpec": "ampcore.spec",
    "LossScaleState": "ampcore.precision",
    "NoLossScale": "ampcore.precision",
    "StepBlock": "ampcore.series",
    "TrainResult": "ampcore.train",
    "Trainer": "ampcore.train",
    "apply_if_finite": "ampcore.precision",
    "apply_together": "ampcore.precision",
}

__all__ = [
    "CalibratedLossScale",
    "DynamicLossScale",
    "Event",
    "FixedLossScale",
    "JobSpec",
    "LossScaleState",
    "NoLossScale",
    "StepBlock",
    "TrainResult",
    "Trainer",
    "apply_if_finite",
    "apply_together",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ampcore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
