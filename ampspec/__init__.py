"""Shared by every process: job specs, telemetry, API models and studies; no TensorFlow."""

from typing import Final

__version__: Final = "0.6.0"
"""The version of ampcore, the same for all its packages."""
