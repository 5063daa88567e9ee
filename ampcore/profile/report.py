"""The report of a profile as a JSON document: phases, dtypes, layers, operations, kernels.

Times are seconds per step unless a name says otherwise; a device that executes several operations
at the same time is busy for longer than a step takes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ampcore.phases import Phase
from ampcore.profile.executed import FLOATS
from ampcore.profile.findings import find, reason_of
from ampcore.profile.gpu_kernels import input_dtype, uses_tensor_cores
from ampcore.profile.operations import (
    OUTSIDE_STEPS,
    PS,
    OperationRow,
    OperationTable,
    ProfileContext,
    total_s,
)
from ampcore.profile.trace import EventKind, Trace

VERSION: Final = 1
MAX_ROWS: Final = 500
"""The most operations, and the most kernels, of a report; the rest is summed up."""
SPANS: Final = (Phase.INPUT, *OUTSIDE_STEPS)
"""The phases that are measured on the host."""


def build_report(trace: Trace, context: ProfileContext) -> dict[str, Any]:
    """The report of profiled steps.

    Args:
        trace: What the profiler recorded in them.
        context: What else is known of the run.
    """
    rows = OperationTable(trace, context).rows
    in_steps = [row for row in rows if row.phase not in OUTSIDE_STEPS]
    findings = find(in_steps, context)
    steps = max(context.steps, 1)
    return {
        "version": VERSION,
        "policy": context.policy,
        "promised_dtype": context.promised_dtype,
        "engine": context.engine,
        "device": dict(context.device),
        "first_step": context.first_step,
        "steps": context.steps,
        "step_s": context.wall_s / steps,
        "busy_s": total_s(in_steps) / steps,
        "sixteen_bit": _sixteen_bit(in_steps),
        "phases": _phases(rows, trace, steps),
        "dtypes": _dtypes(in_steps, steps),
        "layers": _layers(in_steps, steps),
        "operations": [_operation(row, steps, context) for row in in_steps[:MAX_ROWS]],
        "operations_left_out": max(len(in_steps) - MAX_ROWS, 0),
        "kernels": _kernels(trace, steps),
        "findings": [finding.to_json() for finding in findings],
    }


def _sixteen_bit(rows: Sequence[OperationRow]) -> dict[str, Any]:
    """Shares of time that are truly spent in 16 bit; None where nothing was to be counted.

    `of_step`: of all operations; `of_matrices`: of products of matrices; `of_promised`: of those
    that the policy promises; `tensor_cores`: the time in Tensor-Core kernels, of the products that
    Tensor Cores could compute (DLProf's efficiency).
    """
    matrices = [row for row in rows if row.is_matrix]
    promised = [row for row in rows if row.promised]
    eligible = [row for row in rows if row.eligible and row.tensor_cores is not None]
    casts = [row for row in rows if row.is_cast]
    return {
        "of_step": _share(rows, lambda row: row.in_16_bit),
        "of_matrices": _share(matrices, lambda row: row.in_16_bit),
        "of_promised": _share(promised, lambda row: row.in_16_bit),
        "tensor_cores": _share(eligible, lambda row: row.tensor_cores is True),
        "casts": total_s(casts) / total_s(rows) if total_s(rows) else None,
    }


def _share(rows: Sequence[OperationRow], counts: Callable[[OperationRow], bool]) -> float | None:
    whole = total_s(rows)
    return total_s(row for row in rows if counts(row)) / whole if whole else None


def _phases(rows: Sequence[OperationRow], trace: Trace, steps: int) -> list[dict[str, Any]]:
    """The time in each phase, and its share of the steps; evaluation and checkpoints have none."""
    busy: dict[Phase, float] = defaultdict(float)
    for row in rows:
        if row.phase not in OUTSIDE_STEPS:
            busy[row.phase] += row.self_s
    for span in trace.events:
        if span.kind is EventKind.SPAN and span.name in SPANS:
            busy[Phase(span.name)] += span.duration_ps * PS
    whole = sum(time_s for phase, time_s in busy.items() if phase not in OUTSIDE_STEPS)
    return [
        {
            "phase": phase,
            "time_s": busy[phase] / steps,
            "share": None if phase in OUTSIDE_STEPS else busy[phase] / whole,
        }
        for phase in Phase
        if busy.get(phase)
    ]


def _dtypes(rows: Sequence[OperationRow], steps: int) -> list[dict[str, Any]]:
    """The time by the dtype that operations compute in, and how much of it multiplies matrices."""
    whole = total_s(rows)
    groups: dict[str, list[OperationRow]] = defaultdict(list)
    for row in rows:
        groups[row.computed_in].append(row)
    order = {dtype: place for place, dtype in enumerate(FLOATS)}
    return [
        {
            "dtype": dtype,
            "time_s": total_s(group) / steps,
            "share": total_s(group) / whole if whole else 0.0,
            "matrices_s": total_s(row for row in group if row.is_matrix) / steps,
        }
        for dtype, group in sorted(groups.items(), key=lambda item: order.get(item[0], len(order)))
    ]


def _layers(rows: Sequence[OperationRow], steps: int) -> list[dict[str, Any]]:
    groups: dict[str, list[OperationRow]] = defaultdict(list)
    for row in rows:
        if row.layer is not None:
            groups[row.layer].append(row)
    layers = [
        {
            "layer": layer,
            "time_s": total_s(group) / steps,
            "forward_s": _in_phase(group, Phase.FORWARD) / steps,
            "backward_s": _in_phase(group, Phase.BACKWARD) / steps,
            "in_16_bit": _share(group, lambda row: row.in_16_bit),
        }
        for layer, group in groups.items()
    ]
    return sorted(layers, key=lambda layer: -float(layer["time_s"] or 0))


def _in_phase(rows: Iterable[OperationRow], phase: Phase) -> float:
    return total_s(row for row in rows if row.phase is phase)


def _operation(row: OperationRow, steps: int, context: ProfileContext) -> dict[str, Any]:
    sizes = {layer.path: layer.sizes for layer in context.layers}
    return {
        "name": row.name,
        "type": row.type,
        "phase": row.phase,
        "layer": row.layer,
        "dtype": row.dtype,
        "computed_in": row.computed_in,
        "calls": row.calls / steps,
        "total_s": row.total_s / steps,
        "self_s": row.self_s / steps,
        "average_s": row.total_s / row.calls,
        "eligible": row.eligible,
        "in_16_bit": row.in_16_bit,
        "tensor_cores": row.tensor_cores,
        "reason": reason_of(row, sizes),
    }


def _kernels(trace: Trace, steps: int) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = defaultdict(list)
    operations: dict[str, str] = {}
    for event in trace.events:
        if event.kind is EventKind.KERNEL:
            times[event.name].append(event.duration_ps * PS)
            operations.setdefault(event.name, event.operation)
    kernels: list[dict[str, Any]] = [
        {
            "name": name,
            "operation": operations[name],
            "dtype": input_dtype(name),
            "tensor_cores": uses_tensor_cores(name),
            "calls": len(durations) / steps,
            "total_s": sum(durations) / steps,
            "average_s": sum(durations) / len(durations),
            "min_s": min(durations),
            "max_s": max(durations),
        }
        for name, durations in times.items()
    ]
    return sorted(kernels, key=lambda kernel: -kernel["total_s"])[:MAX_ROWS]
