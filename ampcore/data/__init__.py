"""Loads datasets by `kind` into memory; each module registers its loader."""

from ampcore.data import digits, npz, synthetic, synthetic_clicks, text
from ampcore.data.dataset import Batch, Dataset, Signature
from ampcore.data.registry import LOADERS, load

__all__ = [
    "LOADERS",
    "Batch",
    "Dataset",
    "Signature",
    "digits",
    "load",
    "npz",
    "synthetic",
    "synthetic_clicks",
    "text",
]
