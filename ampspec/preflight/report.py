"""The preflight report of a job: findings and figures for the machines that it may run on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ampspec.documents.regex_cost import MAX_MATCH_STEPS, match_cost
from ampspec.jobs import JobSpec
from ampspec.precision.devices import DeviceInfo, choose_device
from ampspec.precision.layer_dtypes import resolve_policy
from ampspec.precision.precision import Precision
from ampspec.preflight.case import Case, Finding
from ampspec.preflight.checks import CHECKS
from ampspec.preflight.data import NotYetKnown, total_steps
from ampspec.preflight.figures import Figures, figures
from ampspec.preflight.layer_table import LayerRow, LayerTable, all_layers
from ampspec.preflight.spec_tables import tables_from_spec


@dataclass(frozen=True)
class PreflightReport:
    """Findings and figures; figures are None while the layers are not known."""

    findings: tuple[Finding, ...]
    figures: Figures | None
    tables: tuple[LayerTable, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "figures": self.figures.to_json() if self.figures is not None else None,
            "layers": [
                _layer_json(table.network, layer) for table in self.tables for layer in table.layers
            ],
        }


def preflight(spec: JobSpec, machines: Sequence[Sequence[DeviceInfo]] = ()) -> PreflightReport:
    """Check a valid spec, without its data, for the devices of each machine.

    The figures are for the policy on the first machine with the requested device.
    """
    reported_machines = [machine for machine in machines if machine]
    devices = _devices_used(spec, reported_machines)
    policy = resolve_policy(spec.precision.policy, devices[0] if devices else None)
    predicted = _predict_tables(spec)
    tables = None
    if not isinstance(predicted, NotYetKnown):
        tables = tuple(table.with_policy(spec.precision, policy) for table in predicted)
    steps = total_steps(spec)
    report = run_checks(Case(spec, policy, tables, devices, len(reported_machines), steps))
    if isinstance(predicted, NotYetKnown):
        late = Finding("layers_unknown", "info", "/model", predicted.reason)
        return PreflightReport((*report.findings, late), None, ())
    return report


def _predict_tables(spec: JobSpec) -> tuple[LayerTable, ...] | NotYetKnown:
    predicted = tables_from_spec(spec)
    if not isinstance(predicted, NotYetKnown) and _override_matching_is_slow(
        spec.precision, predicted
    ):
        return NotYetKnown(
            "The regular expressions in precision.overrides may take too long to match here; the "
            "layers are known once the job starts."
        )
    return predicted


def _override_matching_is_slow(precision: Precision, tables: Sequence[LayerTable]) -> bool:
    """Whether matching the overrides against the paths of all layers could take seconds.

    Estimated without matching: a hostile regular expression could block the server.
    """
    layers = all_layers(tables)
    longest = max((len(path) for layer in layers for path in (layer.path, *layer.parts)), default=0)
    patterns = {override.layers for override in precision.overrides}
    return sum(match_cost(pattern, longest) for pattern in patterns) * len(layers) > MAX_MATCH_STEPS


def run_checks(case: Case) -> PreflightReport:
    """All findings about a case, and its figures if its layers are known."""
    findings = tuple(finding for check in CHECKS for finding in check(case))
    if case.tables is None:
        return PreflightReport(findings, None, ())
    return PreflightReport(findings, figures(case.tables, case.spec, case.policy), case.tables)


def _devices_used(
    spec: JobSpec, machines: Sequence[Sequence[DeviceInfo]]
) -> tuple[DeviceInfo, ...]:
    """The distinct devices that the machines would train on."""
    chosen_devices = (choose_device(devices, spec.runtime.device) for devices in machines)
    return tuple(dict.fromkeys(device for device in chosen_devices if device is not None))


def _layer_json(network: str, layer: LayerRow) -> dict[str, Any]:
    return {
        "network": network,
        "path": layer.path,
        "kind": layer.kind,
        "output_shape": list(layer.output_shape),
        "parameters": layer.parameters,
        "multiply_adds": layer.multiply_adds,
        "compute_dtype": layer.product_dtype,
        "variable_dtype": layer.variable_dtype,
    }
