"""Warns of columns that are encoded as categories but have hardly any value twice."""

from collections.abc import Iterator
from typing import Final

from ampcore.data import Dataset
from ampspec.preflight import Finding

MIN_ROWS: Final = 20
MAX_SHARE: Final = 0.5
"""More different values for each row are names, numbers of rows, or sentences."""


def category_findings(dataset: Dataset) -> Iterator[Finding]:
    """A warning for each input column from whose categories nothing can be learned.

    Text is encoded as categories unless the spec says otherwise, so that sentences become one
    category each, and all of the validation rows are unknown.
    """
    categories = dataset.prepared.categories if dataset.prepared is not None else {}
    for column, (different, rows) in categories.items():
        if rows >= MIN_ROWS and different > MAX_SHARE * rows:
            yield Finding(
                "categories_almost_unique",
                "warning",
                "/data/preprocessing",
                f"The column {column} has {different:,} different values in {rows:,} training "
                "rows, and each is a category of its own. For sentences set preprocessing: "
                f"{{{column}: {{tokens: {{length: 64}}}}}}; leave out names and numbers of rows "
                "with data.inputs.",
                {"column": column, "different": different, "rows": rows},
            )
