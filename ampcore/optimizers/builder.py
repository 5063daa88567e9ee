"""Optimizers by the spec's `kind`.

They do not clip: the training step clips after unscaling, before the update.
"""

from collections.abc import Callable

from ampcore.optimizers import schedule
from ampcore.optimizers.optimizer import Optimizer
from ampcore.optimizers.update_rules import Adam, RmsProp, Rule, Sgd
from ampcore.spec.optimizer import OptimizerSpec

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


def build(spec: OptimizerSpec, total_steps: int) -> Optimizer:
    """A Keras optimizer for a run of `total_steps` updates.

    The arguments of its rule have the same names in the spec. Its name is its kind, so that its
    variables have the same paths in every process.
    """
    return Optimizer(
        RULES[spec.kind](**spec.model_dump(exclude=_NOT_RULE_FIELDS)),
        schedule.build(spec.schedule, spec.learning_rate, total_steps),
        name=spec.kind,
        weight_decay=getattr(spec, "weight_decay", None),
        ema=spec.ema,
    )
