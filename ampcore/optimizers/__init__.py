"""How weights are updated: a lean Keras optimizer, its rules, schedules and averages."""

from ampcore.optimizers.builder import RULES, build
from ampcore.optimizers.moving_average import assign_averages, averaged

__all__ = ["RULES", "assign_averages", "averaged", "build"]
