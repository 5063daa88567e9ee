"""Reads a trace of TensorFlow's profiler (XSpace) into events: operations, kernels and spans.

On the host the executor writes one event per operation, `name:type`, and XLA's CPU runtime one per
thunk, with its HLO instruction. On a GPU each kernel is an event on the line of its stream.

Source: tensorflow/core/profiler and xla/tsl/profiler/utils/xplane_schema.h (the names of planes,
lines and stats).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from ampcore.phases import SCOPE_PREFIX
from ampcore.profile.protos import xplane_pb2

HOST: Final = "/host:CPU"
METADATA: Final = "/host:metadata"
GPU: Final = "/device:GPU:"
STREAM: Final = "Stream"
HLO_STAT: Final = "Hlo Proto"
FUNCTION_CALLS: Final = re.compile(r"^(?:__inference_|__forward_|__backward_|while$|If$|cond$)")
CONTROL_TYPES: Final = frozenset(
    {"While", "StatelessWhile", "If", "StatelessIf", "PartitionedCall", "StatefulPartitionedCall"}
)
"""Operations whose time is that of the operations inside."""
COLLECTIVE: Final = "Collective"
COLLECTIVE_THREADS: Final = "collective_ops"
"""The lines of the threads in which the host executes collectives, and waits for other ranks."""
_OPERATION: Final = re.compile(r"^(?P<name>[A-Za-z0-9_.\\/>-]+):(?P<type>_?[A-Z][A-Za-z0-9_]*)$")


class EventKind(StrEnum):
    """What an event of a trace is."""

    OPERATION = "operation"
    THUNK = "thunk"
    KERNEL = "kernel"
    SPAN = "span"


@dataclass(frozen=True)
class TraceEvent:
    """One event.

    Attributes:
        kind: What it is.
        name: Of the operation, the HLO instruction, the kernel or the phase.
        type: Of an operation: such as `MatMul`; else "".
        start_ps: Picoseconds since the start of the profile.
        duration_ps: Picoseconds.
        self_ps: The duration without that of the events inside, on the same line.
        program_id: Of a thunk or kernel of XLA: which program its instruction belongs to.
        operation: Of a kernel: the operation of TensorFlow or the HLO instruction that it is for.
    """

    kind: EventKind
    name: str
    type: str
    start_ps: int
    duration_ps: int
    self_ps: int
    program_id: int | None = None
    operation: str = ""


@dataclass(frozen=True)
class Trace:
    """What a profile recorded: events, and the programs of XLA by their number."""

    events: tuple[TraceEvent, ...]
    programs: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def on_gpu(self) -> bool:
        """Whether kernels of a GPU were recorded."""
        return any(event.kind is EventKind.KERNEL for event in self.events)


def read_trace(file: Path) -> Trace:
    """Read an `xplane.pb`.

    Raises:
        ValueError: The file is not one.
    """
    space = xplane_pb2().XSpace()
    try:
        space.ParseFromString(file.read_bytes())
    except Exception as error:
        raise ValueError(f"{file.name}: expected a trace (XSpace); {error}") from error
    return trace_of(space)


def trace_of(space: Any) -> Trace:
    """The events of an XSpace."""
    events: list[TraceEvent] = []
    programs: dict[int, bytes] = {}
    for plane in space.planes:
        if plane.name == METADATA:
            programs |= _programs(plane)
        elif plane.name == HOST:
            for line in plane.lines:
                events += _line_events(plane, line, _host_event)
        elif plane.name.startswith(GPU):
            for line in plane.lines:
                if line.name.startswith(STREAM):
                    events += _line_events(plane, line, _kernel_event)
    return Trace(tuple(events), programs)


def _programs(plane: Any) -> dict[int, bytes]:
    names = {key: meta.name for key, meta in plane.stat_metadata.items()}
    return {
        number: stat.bytes_value
        for number, meta in plane.event_metadata.items()
        for stat in meta.stats
        if names.get(stat.metadata_id) == HLO_STAT
    }


def _line_events(
    plane: Any, line: Any, read: Callable[[Any, Any, Any], dict[str, Any] | None]
) -> list[TraceEvent]:
    """The events of one line with their own times: a line's events are nested or disjoint."""
    spans: list[tuple[int, int, int, Any]] = []
    open_events: list[tuple[int, int]] = []  # end, index in `spans`
    self_ps: list[int] = []
    for event in sorted(line.events, key=lambda event: (event.offset_ps, -event.duration_ps)):
        fields = read(plane, line, event)
        if fields is None:
            continue
        start = line.timestamp_ns * 1000 + event.offset_ps
        end = start + event.duration_ps
        while open_events and open_events[-1][0] <= start:
            open_events.pop()
        if open_events:
            self_ps[open_events[-1][1]] -= event.duration_ps
        open_events.append((end, len(spans)))
        self_ps.append(event.duration_ps)
        spans.append((start, event.duration_ps, len(spans), fields))
    return [
        TraceEvent(start_ps=start, duration_ps=duration, self_ps=max(self_ps[index], 0), **fields)
        for start, duration, index, fields in spans
    ]


def _host_event(plane: Any, line: Any, event: Any) -> dict[str, Any] | None:
    name = plane.event_metadata[event.metadata_id].name
    if name.startswith(SCOPE_PREFIX):
        return {"kind": EventKind.SPAN, "name": name.removeprefix(SCOPE_PREFIX), "type": ""}
    if name.startswith(("end: ", "ThreadpoolListener", "Executor")):
        return None
    stats = _stats(plane, event)
    if (instruction := stats.get("hlo_op")) is not None:
        return {
            "kind": EventKind.THUNK,
            "name": instruction,
            "type": "",
            "program_id": stats.get("program_id"),
        }
    if (match := _OPERATION.match(name)) is None or FUNCTION_CALLS.match(match["type"]):
        return None
    if match["type"] in CONTROL_TYPES or match["name"].startswith("__inference_"):
        return None
    if match["type"].startswith(COLLECTIVE) and not line.name.startswith(COLLECTIVE_THREADS):
        return None  # only hands it to such a thread, which has an event of the same name
    return {"kind": EventKind.OPERATION, "name": match["name"], "type": match["type"]}


def _kernel_event(plane: Any, _line: Any, event: Any) -> dict[str, Any] | None:
    name = plane.event_metadata[event.metadata_id].name
    stats = _stats(plane, event)
    is_copy = "memcpy_details" in stats or "memset_details" in stats
    operation = str(stats.get("hlo_op") or stats.get("tf_op") or stats.get("name") or "")
    return {
        "kind": EventKind.KERNEL,
        "name": name,
        "type": "copy" if is_copy else "",
        "program_id": stats.get("program_id") if "hlo_op" in stats else None,
        "operation": operation.rpartition(":")[0] or operation,
    }


def _stats(plane: Any, event: Any) -> dict[str, Any]:
    stats: dict[str, Any] = {}
    for stat in event.stats:
        field_name = stat.WhichOneof("value")
        if field_name is None:
            continue
        value = getattr(stat, field_name)
        if field_name == "ref_value":
            value = plane.stat_metadata[value].name
        stats[plane.stat_metadata[stat.metadata_id].name] = value
    return stats
