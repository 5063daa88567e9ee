"""The reports about the first step of a job as lines of text."""

from collections.abc import Iterable, Sequence

from ampcore.diagnostics.ranges.perturbation import RISKY_CHANGE, LayerPerturbation
from ampspec.documents.text import table_lines
from ampspec.precision.precision import float32_overrides
from ampspec.telemetry.ranges.range_report import RangeReport
from ampspec.telemetry.ranges.unit_scaling import UnitScale

MISSING = "–"


def range_lines(report: RangeReport, scales: Sequence[UnitScale]) -> list[str]:
    """The deviations and multipliers of each layer, and what the format would do."""
    rows = [
        (
            layer_scale.layer,
            _number(layer_scale.output_deviation),
            _number(layer_scale.output_multiplier),
            _number(layer_scale.gradient_deviation),
            _number(layer_scale.gradient_multiplier),
        )
        for layer_scale in scales
    ]
    head = ("layer", "std of outputs", "multiply by", "std of gradients", "multiply by")
    return [*table_lines(head, rows), "", report.sentence, *override_lines(report.float32_layers)]


def perturbation_lines(perturbations: Sequence[LayerPerturbation], number_format: str) -> list[str]:
    """The changes by each layer, the largest first, and what to keep in float32."""
    rows = [
        (
            change.layer,
            f"{change.gradient_change:.2g}",
            f"{change.loss_change:.2g}",
            "risky" if change.is_risky else "",
        )
        for change in perturbations
    ]
    table = table_lines(("layer", "gradient change", "loss change", ""), rows)
    risky = [change.layer for change in perturbations if change.is_risky]
    if not risky:
        end = (
            f"No layer is risky: rounded to {number_format} alone, none changes the gradients by "
            f"more than {RISKY_CHANGE:.0%} of their norm."
        )
        return [*table, "", end]
    sentence = f"Rounded to {number_format} alone, {', '.join(risky)} would harm the gradients."
    return [*table, "", sentence, *override_lines(risky)]


def override_lines(layers: Iterable[str]) -> list[str]:
    """The lines of a spec that keep these layers in float32."""
    entries = float32_overrides(layers)
    head = ["precision:", "  overrides:"] if entries else []
    return head + [f"    - {{layers: '{entry['layers']}', dtype: float32}}" for entry in entries]


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}"
