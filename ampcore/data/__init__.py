"""Data sets by `kind`; each module registers its loader. Everything fits into memory."""

from ampcore.data import digits, npz, synthetic
from ampcore.data.dataset import Dataset
from ampcore.data.registry import LOADERS, load

__all__ = ["LOADERS", "Dataset", "digits", "load", "npz", "synthetic"]
