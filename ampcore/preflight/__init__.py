"""Preflight: what a job will cost and what is likely to disappoint, before its first step.

Needs no TensorFlow: from the spec alone, or from the layers that `ampcore.diagnose.inspect`
found in real models.
"""

from ampcore.preflight.blueprint import blueprint
from ampcore.preflight.data import Unknown
from ampcore.preflight.figures import Figures, Memory, figures
from ampcore.preflight.finding import Finding
from ampcore.preflight.layer import Dimension, Layer, Table
from ampcore.preflight.report import Report, judged, preflight

__all__ = [
    "Dimension",
    "Figures",
    "Finding",
    "Layer",
    "Memory",
    "Report",
    "Table",
    "Unknown",
    "blueprint",
    "figures",
    "judged",
    "preflight",
]
