"""Readers of data files: rows by number, as NumPy arrays by column, without TensorFlow.

No reader runs code from a file (no pickles), leaves the given folder, or uses more memory or disk
than its limits allow.
"""

from ampdata.limits import Limits
from ampdata.opening import list_columns, list_splits, open_source
from ampdata.source import Array, Column, Dtype, LeftOut, ListedColumns, Source, Split

__all__ = [
    "Array",
    "Column",
    "Dtype",
    "LeftOut",
    "Limits",
    "ListedColumns",
    "Source",
    "Split",
    "list_columns",
    "list_splits",
    "open_source",
]
