"""Mixed-precision training of Keras models.

Importing this loads no TensorFlow; the names below that need it are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ampcore.callbacks import LossScaleCallback, SkipReport, TelemetryCallback
    from ampcore.conversion import ConvertedModel, NotConvertible, layers_spec_from_keras
    from ampcore.errors import TrainingError
    from ampcore.precision import (
        CalibratedLossScale,
        DynamicLossScale,
        FixedLossScale,
        LossScale,
        LossScaleOptimizer,
        LossScaleState,
        NoLossScale,
        Outcome,
        apply_all_if_finite,
        apply_if_finite,
        apply_policy,
        clip_by_global_norm,
        global_norm,
    )
    from ampcore.spec import JobSpec, SpecValidationError
    from ampcore.spec.precision import Override, Precision
    from ampcore.spec.telemetry import Telemetry
    from ampcore.spec.training import Best, Diagnostics, EarlyStopping, Guard, Runtime, Train
    from ampcore.telemetry import Event, StepBlock
    from ampcore.train import Trainer, TrainResult

__version__ = "0.5.0"

_LAZY_MODULES = {
    "Best": "ampcore.spec.training",
    "CalibratedLossScale": "ampcore.precision",
    "ConvertedModel": "ampcore.conversion",
    "Diagnostics": "ampcore.spec.training",
    "DynamicLossScale": "ampcore.precision",
    "EarlyStopping": "ampcore.spec.training",
    "Event": "ampcore.telemetry",
    "FixedLossScale": "ampcore.precision",
    "Guard": "ampcore.spec.training",
    "JobSpec": "ampcore.spec",
    "LossScale": "ampcore.precision",
    "LossScaleCallback": "ampcore.callbacks",
    "LossScaleOptimizer": "ampcore.precision",
    "LossScaleState": "ampcore.precision",
    "NoLossScale": "ampcore.precision",
    "NotConvertible": "ampcore.conversion",
    "Outcome": "ampcore.precision",
    "Override": "ampcore.spec.precision",
    "Precision": "ampcore.spec.precision",
    "Runtime": "ampcore.spec.training",
    "SkipReport": "ampcore.callbacks",
    "SpecValidationError": "ampcore.spec",
    "StepBlock": "ampcore.telemetry",
    "Telemetry": "ampcore.spec.telemetry",
    "TelemetryCallback": "ampcore.callbacks",
    "Train": "ampcore.spec.training",
    "TrainResult": "ampcore.train",
    "Trainer": "ampcore.train",
    "TrainingError": "ampcore.errors",
    "apply_all_if_finite": "ampcore.precision",
    "apply_if_finite": "ampcore.precision",
    "apply_policy": "ampcore.precision",
    "clip_by_global_norm": "ampcore.precision",
    "global_norm": "ampcore.precision",
    "layers_spec_from_keras": "ampcore.conversion",
}

__all__ = [
    "Best",
    "CalibratedLossScale",
    "ConvertedModel",
    "Diagnostics",
    "DynamicLossScale",
    "EarlyStopping",
    "Event",
    "FixedLossScale",
    "Guard",
    "JobSpec",
    "LossScale",
    "LossScaleCallback",
    "LossScaleOptimizer",
    "LossScaleState",
    "NoLossScale",
    "NotConvertible",
    "Outcome",
    "Override",
    "Precision",
    "Runtime",
    "SkipReport",
    "SpecValidationError",
    "StepBlock",
    "Telemetry",
    "TelemetryCallback",
    "Train",
    "TrainResult",
    "Trainer",
    "TrainingError",
    "apply_all_if_finite",
    "apply_if_finite",
    "apply_policy",
    "clip_by_global_norm",
    "global_norm",
    "layers_spec_from_keras",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module 'ampcore' has no attribute {name!r}")
    return getattr(import_module(_LAZY_MODULES[name]), name)


def __dir__() -> list[str]:
    """The public names; not those that this module imports."""
    return sorted([*__all__, "__version__"])
