"""The share of estimates that are close to their targets.

A job of regression names it in its task: `metrics: [{kind: package, package: custom-package, name:
within}]`.
"""

from collections.abc import Callable
from typing import Any

from keras import ops
from pydantic import BaseModel, ConfigDict, Field

from ampcore.plugins import PackageMetric


class Options(BaseModel):
    """The options of the metric."""

    model_config = ConfigDict(extra="forbid")

    tolerance: float = Field(default=0.1, gt=0)
    """The largest difference that counts as close."""


def build(options: Options) -> Callable[[Any, Any], Any]:
    """1 for an estimate that is close to its target, 0 for another one."""

    def is_close(y_true: Any, y_pred: Any) -> Any:
        return ops.cast(ops.abs(y_true - y_pred) <= options.tolerance, "float32")

    return is_close


within = PackageMetric(build, Options)
