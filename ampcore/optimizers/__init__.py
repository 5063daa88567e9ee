"""How weights are updated: a lean Keras optimizer, its rules, schedules and averages."""

from ampcore.optimizers.averages import adopt_averages, averaged
from ampcore.optimizers.kinds import RULES, build

__all__ = ["RULES", "adopt_averages", "averaged", "build"]
