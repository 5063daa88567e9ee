"""Report: the findings and figures of one job, for the machines that it may run on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ampcore.preflight.blueprint import blueprint
from ampcore.preflight.case import Case
from ampcore.preflight.checks import CHECKS
from ampcore.preflight.data import Unknown, total_steps
from ampcore.preflight.effort import takes_long
from ampcore.preflight.figures import Figures, figures
from ampcore.preflight.finding import Finding
from ampcore.preflight.layer import Layer, Table
from ampcore.spec import JobSpec
from ampcore.spec.devices import DeviceFacts, preferred
from ampcore.spec.layer_dtypes import settled_policy


@dataclass(frozen=True)
class Report:
    """What the preflight has to say; no figures where the layers are not known yet."""

    findings: tuple[Finding, ...]
    figures: Figures | None
    tables: tuple[Table, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "findings": [finding.to_json() for finding in self.findings],
            "figures": self.figures.to_json() if self.figures is not None else None,
            "layers": [
                _row(table.network, layer) for table in self.tables for layer in table.layers
            ],
        }


def preflight(spec: JobSpec, machines: Sequence[Sequence[DeviceFacts]] = ()) -> Report:
    """Judge a valid spec, without its data, for the devices of each machine that is there.

    The figures are those of the policy on the first machine that has the device asked for.
    """
    known = [machine for machine in machines if machine]
    devices = _chosen(spec, known)
    policy = settled_policy(spec.precision.policy, devices[0] if devices else None)
    drawn = _drawn(spec)
    tables = None
    if not isinstance(drawn, Unknown):
        tables = tuple(table.under(spec.precision, policy) for table in drawn)
    steps = total_steps(spec.data, spec.train)
    report = judged(Case(spec, policy, tables, devices, len(known), steps))
    if isinstance(drawn, Unknown):
        late = Finding("layers_unknown", "info", "/model", drawn.why)
        return Report((*report.findings, late), None, ())
    return report


def _drawn(spec: JobSpec) -> tuple[Table, ...] | Unknown:
    drawn = blueprint(spec)
    if not isinstance(drawn, Unknown) and takes_long(spec.precision, drawn):
        return Unknown(
            "The regular expressions in precision.overrides may take long to match; the layers "
            "are known when the job starts."
        )
    return drawn


def judged(case: Case) -> Report:
    """Every finding about a case, and its figures if its layers are known."""
    found = tuple(finding for check in CHECKS for finding in check(case))
    if case.tables is None:
        return Report(found, None, ())
    return Report(found, figures(case.tables, case.spec, case.policy), case.tables)


def _chosen(spec: JobSpec, machines: Sequence[Sequence[DeviceFacts]]) -> tuple[DeviceFacts, ...]:
    """The device that each machine would train on, alike ones once."""
    found = (preferred(devices, spec.runtime.device) for devices in machines)
    return tuple(dict.fromkeys(device for device in found if device is not None))


def _row(network: str, layer: Layer) -> dict[str, Any]:
    return {
        "network": network,
        "path": layer.path,
        "kind": layer.kind,
        "output_shape": list(layer.output_shape),
        "parameters": layer.parameters,
        "multiply_adds": layer.multiply_adds,
        "compute_dtype": layer.compute,
        "variable_dtype": layer.variable,
    }
