"""Preflight: estimates a job's memory and FLOPs and checks it for known problems before it runs.

It needs no TensorFlow: it reads the spec, or the layer tables that
`ampcore.diagnostics.model_layers` makes of real models.
"""

from ampspec.preflight.case import Finding
from ampspec.preflight.data import NotYetKnown
from ampspec.preflight.figures import Figures, Memory, figures
from ampspec.preflight.layer_table import Dimension, LayerRow, LayerTable
from ampspec.preflight.report import PreflightReport, preflight, run_checks
from ampspec.preflight.spec_tables import tables_from_spec

__all__ = [
    "Dimension",
    "Figures",
    "Finding",
    "LayerRow",
    "LayerTable",
    "Memory",
    "NotYetKnown",
    "PreflightReport",
    "figures",
    "preflight",
    "run_checks",
    "tables_from_spec",
]
