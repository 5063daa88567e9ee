"""Warns of inputs whose range does not suit 16-bit layers, and of examples that stand out."""

from collections.abc import Iterator
from typing import Final

from ampcore.diagnostics.input_statistics import InputStatistics
from ampcore.precision import LayerPolicies
from ampspec.documents.text import join_names, plural
from ampspec.preflight import Finding

LARGEST: Final = 32.0
"""Normalized inputs are rarely above 5; pixels go up to 255."""


def input_findings(
    statistics: InputStatistics | None, policies: LayerPolicies
) -> Iterator[Finding]:
    """Warnings about the training inputs.

    Args:
        statistics: Of the training examples; None of batches that arrive in an order of their own,
            which are not looked at: reading them would lose them.
        policies: The dtypes of the layers; the range matters in 16 bits only.
    """
    if statistics is None:
        return
    if policies.compute_dtypes and statistics.usual_input > LARGEST:
        dtypes = join_names(sorted(policies.compute_dtypes))
        yield Finding(
            "inputs_far_from_unit_range",
            "warning",
            "/data",
            f"The inputs usually reach {statistics.usual_input:,.6g}: in {dtypes} the first layers "
            "lose precision or overflow. Rescale them: data.preprocessing with rescaling or "
            "normalize, or a layer of the model.",
            {"largest": statistics.largest, "usual": statistics.usual_input},
        )
    if extremes := statistics.extremes:
        names = join_names([f"{extreme.example} ({extreme.largest:.4g})" for extreme in extremes])
        yield Finding(
            "examples_far_from_all_others",
            "warning",
            "/data",
            f"{plural(len(extremes), 'training example')} "
            f"{'has' if len(extremes) == 1 else 'have'} values that are not finite, or more than "
            f"10,000 times as far from the median as values usually are: {names}. Values are "
            f"usually at most {statistics.usual:.4g}. Repair or remove "
            f"{'it' if len(extremes) == 1 else 'them'}.",
            {"examples": [extreme.example for extreme in extremes]},
        )
