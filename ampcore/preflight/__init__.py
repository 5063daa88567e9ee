"""Preflight: estimates a job's memory and FLOPs and checks it for known problems before it runs.

It needs no TensorFlow: it reads the spec, or the layer tables that
`ampcore.diagnostics.model_layers` makes of real models.
"""

from ampcore.preflight.case import Finding
from ampcore.preflight.data import NotYetKnown
from ampcore.preflight.figures import Figures, Memory, figures
from ampcore.preflight.layer_table import Dimension, LayerRow, LayerTable
from ampcore.preflight.report import PreflightReport, preflight, run_checks
from ampcore.preflight.spec_tables import tables_from_spec

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
