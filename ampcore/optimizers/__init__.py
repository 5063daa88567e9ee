"""Optimizers: a Keras optimizer with fused and sparse updates, rules, schedules and averages."""

from ampcore.optimizers.builder import RULES, build
from ampcore.optimizers.moving_average import assign_averages, averaged

__all__ = ["RULES", "assign_averages", "averaged", "build"]
