"""Mixed-precision training of Keras models.

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
        apply_all_if_finite,
        apply_if_finite,
    )
    from ampcore.spec import JobSpec
    from ampcore.telemetry import Event, StepBlock
    from ampcore.train import Trainer, TrainResult

__version__ = "0.5.0"

_LAZY_MODULES = {
    "CalibratedLossScale": "ampcore.precision",
    "DynamicLossScale": "ampcore.precision",
    "Event": "ampcore.telemetry",
    "FixedLossScale": "ampcore.precision",
    "JobSpec": "ampcore.spec",
    "LossScaleState": "ampcore.precision",
    "NoLossScale": "ampcore.precision",
    "StepBlock": "ampcore.telemetry",
    "TrainResult": "ampcore.train",
    "Trainer": "ampcore.train",
    "apply_if_finite": "ampcore.precision",
    "apply_all_if_finite": "ampcore.precision",
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
    "apply_all_if_finite",
    "apply_if_finite",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module 'ampcore' has no attribute {name!r}")
    return getattr(import_module(_LAZY_MODULES[name]), name)


def __dir__() -> list[str]:
    """The public names; not those that this module imports."""
    return sorted([*__all__, "__version__"])
