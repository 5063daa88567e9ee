"""Optimizers by the spec's `kind`.

They do not clip: the training step clips after unscaling, before the update.
"""

from collections.abc import Callable
from typing import Any

from ampcore.optimizers import schedule
from ampcore.optimizers.optimizer import Optimizer
from ampcore.optimizers.package_optimizer import package_optimizer
from ampcore.optimizers.update_rules import Adam, RmsProp, Rule, Sgd
from ampspec.objectives.optimizer import OptimizerSpec, PackageOptimizer

RULES: dict[str, Callable[..., Rule]] = {
    "sgd": Sgd,
    "momentum": Sgd,
    "adam": Adam,
    "adamw": Adam,
    "rmsprop": RmsProp,
}

_NOT_RULE_FIELDS = {
    *("kind", "learning_rate", "schedule", "clip_norm", "clip_value", "ema", "weight_decay"),
}


def build(spec: OptimizerSpec, total_steps: int) -> Any:
    """A Keras optimizer for a run of `total_steps` updates.

    The arguments of its rule have the same names in the spec. Its name is its kind, so that its
    variables have the same paths in every process. Raises InvalidModel for one of a package that
    cannot be used.
    """
    rate = schedule.build(spec.schedule, spec.learning_rate, total_steps)
    if isinstance(spec, PackageOptimizer):
        return package_optimizer(spec, rate)
    return Optimizer(
        RULES[spec.kind](**spec.model_dump(exclude=_NOT_RULE_FIELDS)),
        rate,
        name=spec.kind,
        weight_decay=getattr(spec, "weight_decay", None),
        ema=spec.ema,
    )
