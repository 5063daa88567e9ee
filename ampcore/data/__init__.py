"""Loads datasets by `kind`; each module registers its loader."""

from ampcore.data import digits, file_data, package_data, synthetic, synthetic_clicks, text
from ampcore.data.dataset import Dataset, Signature
from ampcore.data.examples import ArrayExamples, Batch, Examples
from ampcore.data.registry import LOADERS, check_fills_step, load, load_unchecked, local_path

__all__ = [
    "LOADERS",
    "ArrayExamples",
    "Batch",
    "Dataset",
    "Examples",
    "Signature",
    "check_fills_step",
    "digits",
    "file_data",
    "load",
    "load_unchecked",
    "local_path",
    "package_data",
    "synthetic",
    "synthetic_clicks",
    "text",
]
