"""Datasets, and the examples and batches that they are trained on."""

from ampcore.data import sources
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
    "load",
    "load_unchecked",
    "local_path",
    "sources",
]
