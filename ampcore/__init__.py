"""Mixed-precision training of Keras models.

Importing this loads no TensorFlow; the names below that need it are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ampcore.old_names import NEW_NAMES
from ampspec import __version__ as __version__
from ampspec.old_names import install as _install_old_names

if TYPE_CHECKING:
    from ampcore.callbacks import LossScaleCallback, SkipReport, TelemetryCallback
    from ampcore.conversion import ConvertedModel, NotConvertible, layers_spec_from_keras
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
    from ampcore.training import Trainer, TrainResult
    from ampspec.errors import TrainingError
    from ampspec.jobs import JobSpec, SpecValidationError
    from ampspec.precision.precision import Override, Precision
    from ampspec.telemetry import Event, StepBlock
    from ampspec.training.telemetry import Telemetry
    from ampspec.training.training import Best, Diagnostics, EarlyStopping, Guard, Runtime, Train

_LAZY_MODULES = {
    "Best": "ampspec.training.training",
    "CalibratedLossScale": "ampcore.precision",
    "ConvertedModel": "ampcore.conversion",
    "Diagnostics": "ampspec.training.training",
    "DynamicLossScale": "ampcore.precision",
    "EarlyStopping": "ampspec.training.training",
    "Event": "ampspec.telemetry",
    "FixedLossScale": "ampcore.precision",
    "Guard": "ampspec.training.training",
    "JobSpec": "ampspec.jobs",
    "LossScale": "ampcore.precision",
    "LossScaleCallback": "ampcore.callbacks",
    "LossScaleOptimizer": "ampcore.precision",
    "LossScaleState": "ampcore.precision",
    "NoLossScale": "ampcore.precision",
    "NotConvertible": "ampcore.conversion",
    "Outcome": "ampcore.precision",
    "Override": "ampspec.precision.precision",
    "Precision": "ampspec.precision.precision",
    "Runtime": "ampspec.training.training",
    "SkipReport": "ampcore.callbacks",
    "SpecValidationError": "ampspec.jobs",
    "StepBlock": "ampspec.telemetry",
    "Telemetry": "ampspec.training.telemetry",
    "TelemetryCallback": "ampcore.callbacks",
    "Train": "ampspec.training.training",
    "TrainResult": "ampcore.training",
    "Trainer": "ampcore.training",
    "TrainingError": "ampspec.errors",
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


_install_old_names(NEW_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module 'ampcore' has no attribute {name!r}")
    return getattr(import_module(_LAZY_MODULES[name]), name)


def __dir__() -> list[str]:
    """The public names; not those that this module imports."""
    return sorted([*__all__, "__version__"])
