"""The quantile loss: a model trained with it predicts a quantile of the targets.

A job names it in `loss: {kind: package, package: custom-package, name: quantile}` of a regression.
Source: Koenker and Bassett 1978, doi:10.2307/1913643.
"""

from collections.abc import Callable
from typing import Any

from keras import ops
from pydantic import BaseModel, ConfigDict, Field

from ampcore.plugins import PackageLoss


class Options(BaseModel):
    """The options of the loss."""

    model_config = ConfigDict(extra="forbid")

    quantile: float = Field(default=0.5, gt=0, lt=1)


def build(options: Options) -> Callable[[Any, Any], Any]:
    """q times the difference where the prediction is too low, 1 - q times where it is too high."""

    def pinball(y_true: Any, y_pred: Any) -> Any:
        difference = y_true - y_pred
        too_low, too_high = options.quantile * difference, (options.quantile - 1) * difference
        return ops.mean(ops.maximum(too_low, too_high), axis=-1)

    return pinball


quantile = PackageLoss(build, Options)
