"""Chooses the engine by measuring the candidates on the job's own first steps.

Measuring does not affect the result: the state is copied before and restored after it. Its cost is
bounded: a candidate is not compiled if the run is too short to amortise the compilation, or if the
previous candidate was too slow. On CPUs XLA makes small dense networks faster and convolutions
slower, inside a compiled loop by two orders of magnitude; so for short runs the operations of a
step first decide whether measuring is worth it. On GPUs a compiled loop is several times as fast as
graph, whose time goes into starting kernels; there, only the compile time decides.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from ampcore.precision import LossScaleStates
from ampcore.training.step.loop import EngineName, Loop
from ampcore.training.step.step_runner import StepRunner
from ampspec.telemetry import Event, EventType

MEASURE_S: Final = 0.15
"""Seconds of steps to measure."""
MIN_STEPS: Final = 50
"""Runs with fewer steps are not worth the two or three steps of measuring."""
SHORT_RUN_S: Final = 20.0
"""Seconds on graph: a shorter run is not measured, unless its steps are overhead-bound."""
QUICK_MEASURE_S: Final = 0.03
"""Seconds of overhead-bound steps to measure: some dozens of steps."""
OVERHEAD_BOUND_S_PER_OPERATION: Final = 5e-6
"""A step that takes less for each operation spends its time between them, 1 to 2 µs each."""
FREE_OPERATIONS: Final = frozenset({"Const", "Identity", "NoOp", "Placeholder"})
"""Operations that take no time."""
SLOW_UNDER_XLA: Final = ("Conv", "Pool", "Scatter", "Unique", "Segment", "TensorListPopBack")
"""Parts of the names of operations that XLA makes no faster on a CPU, or far slower: convolutions,
rows of tables, loops over a sequence."""
FUSED_TIME_RATIO: Final = 0.5
"""The time of an overhead-bound step in a compiled loop, as a share of its time on graph."""
LOOP_COMPILE_RATIO: Final = 6.0
"""XLA's compile time of an overhead-bound loop, as a multiple of TensorFlow's tracing time."""
MAX_RUN_SHARE: Final = 0.1
"""The share of the run that measuring may take, up to MAX_AUTOTUNE_S."""
MAX_AUTOTUNE_S: Final = 60.0
STEP_COMPILE_RATIO: Final = 5.0
"""The largest compile time observed, as a multiple of TensorFlow's tracing time."""
GIVE_UP_RATIO: Final = 1.5
"""If xla_step takes this many times graph's time, a compiled loop would be even slower."""
MAX_TIME_RATIO: Final = 0.95
"""A compiled engine must take at most this share of graph's time."""
GPU_TIME_RATIO: Final = 0.5
"""On a GPU, the time of a step in a compiled loop, as a share of its time on graph."""
GPU_COMPILE_S: Final = 6.0
GPU_COMPILE_RATIO: Final = 20.0
"""XLA's compile time of a loop for a GPU: GPU_COMPILE_S, in which it tries kernels, and this
multiple of TensorFlow's tracing time."""
SLOW_ON_GPU: Final = ("Scatter", "Unique", "Segment")
"""Parts of the names of operations with which XLA may be slower on a GPU: rows of tables."""


@dataclass(frozen=True)
class EngineTiming:
    """One candidate: seconds to trace and compile, and seconds per step; or why it has none.

    `steps` is the number of measured steps.
    """

    engine: EngineName
    compile_s: float = 0.0
    step_s: float = math.inf
    steps: int = 0
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The measurements, or the note why there are none."""
        if not self.steps:
            return {"engine": self.engine, "note": self.note}
        figures = {"compile_s": self.compile_s, "step_s": self.step_s, "steps": self.steps}
        return {"engine": self.engine, **figures}


@dataclass(frozen=True)
class EngineDecision:
    """The engine in use, why, and the measurements."""

    engine: EngineName
    reason: str
    candidates: tuple[EngineTiming, ...] = ()
    autotune_s: float = 0.0

    def event(self, step: int | None) -> Event:
        """The event of the decision."""
        facts = {
            "engine": self.engine,
            "reason": self.reason,
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "autotune_s": self.autotune_s,
        }
        return Event(EventType.ENGINE, step, facts)


def choose_engine(
    runner: StepRunner, first_step: int, steps_left: int, device: str
) -> EngineDecision:
    """Measure the engines from `first_step` on, and let the runner use the fastest."""
    if steps_left < MIN_STEPS:
        runner.use_engine("graph", first_step)
        return EngineDecision("graph", f"too few steps to measure engines: {steps_left}")
    started_at = time.perf_counter()
    state = runner.state.capture()
    try:
        decision, loop = _Autotuner(runner, first_step, steps_left, device, started_at).decide()
    finally:
        runner.state.restore(state)
    runner.use_loop(loop)
    return decision


class _Autotuner:
    def __init__(
        self, runner: StepRunner, first_step: int, steps_left: int, device: str, started_at: float
    ) -> None:
        self._runner, self._first_step, self._steps_left = runner, first_step, steps_left
        self._device, self._started_at = device, started_at
        self._loops: dict[EngineName, Loop] = {}
        self._scales: LossScaleStates = runner.state.scales
        self._trace_s = 0.0  # of the last loop

    def decide(self) -> tuple[EngineDecision, Loop]:
        compile_s = self._compile("graph")
        if self._device == "gpu":
            return self._decide_on_gpu(self._time("graph", compile_s, _never_enough))
        if self._device == "cpu" and is_fast_under_xla(self._loops["graph"].operations):
            graph = self._time("graph", compile_s, _never_enough, QUICK_MEASURE_S)
            if self._is_overhead_bound(graph):
                return self._decide_overhead_bound(graph)
        return self._decide_compute_bound(self._time("graph", compile_s, is_enough=self._is_short))

    def _decide_overhead_bound(self, graph: EngineTiming) -> tuple[EngineDecision, Loop]:
        """For a step that XLA makes faster: whether the compilation is amortised in this run."""
        expected_s = graph.step_s * self._steps_left
        saved_s = (1.0 - FUSED_TIME_RATIO) * expected_s
        if saved_s < LOOP_COMPILE_RATIO * graph.compile_s:
            reason = f"compiling would take longer than the {saved_s:.1f} s that it could save"
            return self._decision(reason, graph)
        step = EngineTiming("xla_step", note="not measured: xla_loop is at least as fast")
        loop = self._measure("xla_loop", _never_enough, QUICK_MEASURE_S)
        return self._decision("the fastest on the first steps of this job", graph, step, loop)

    def _decide_on_gpu(self, graph: EngineTiming) -> tuple[EngineDecision, Loop]:
        """On a GPU, where a compiled loop is the fastest engine of nearly every network."""
        expected_s = graph.step_s * self._steps_left
        compile_s = GPU_COMPILE_S + GPU_COMPILE_RATIO * self._trace_s
        has_rows = _has_operations(self._loops["graph"].operations, SLOW_ON_GPU)
        if has_rows and compile_s > MAX_RUN_SHARE * expected_s:
            reason = f"compiling would take too large a share of a run of about {expected_s:.0f} s"
            return self._decision(reason, graph)
        saved_s = (1.0 - GPU_TIME_RATIO) * expected_s
        if compile_s > saved_s:
            reason = f"compiling would take longer than the {saved_s:.1f} s that it could save"
            return self._decision(reason, graph)
        give_up_s = 2 * graph.step_s
        loop = self._measure("xla_loop", is_enough=lambda step_s: step_s > give_up_s)
        if loop.steps:
            step = EngineTiming("xla_step", note="not measured: xla_loop was faster on an H200")
        else:
            step = self._measure("xla_step", is_enough=lambda step_s: step_s > give_up_s)
        return self._decision("the fastest on the first steps of this job", graph, step, loop)

    def _decide_compute_bound(self, graph: EngineTiming) -> tuple[EngineDecision, Loop]:
        expected_s = graph.step_s * self._steps_left
        if self._is_short(graph.step_s):
            return self._decision(
                f"run too short to measure engines: about {expected_s:.1f} s", graph
            )
        budget_s = min(MAX_RUN_SHARE * expected_s, MAX_AUTOTUNE_S)
        if STEP_COMPILE_RATIO * graph.compile_s > budget_s:
            reason = f"compiling would take too large a share of a run of about {expected_s:.0f} s"
            return self._decision(reason, graph)
        give_up_s = 2 * GIVE_UP_RATIO * graph.step_s
        step = self._measure("xla_step", is_enough=lambda step_s: step_s > give_up_s)
        loop = self._measure_loop(graph, step, budget_s)
        return self._decision("the fastest on the first steps of this job", graph, step, loop)

    def _measure_loop(
        self, graph: EngineTiming, step: EngineTiming, budget_s: float
    ) -> EngineTiming:
        if not step.steps:
            return EngineTiming("xla_loop", note="not measured: XLA cannot compile the step")
        if step.step_s > GIVE_UP_RATIO * graph.step_s:
            return EngineTiming("xla_loop", note="not measured: xla_step is far slower than graph")
        if time.perf_counter() - self._started_at + step.compile_s > budget_s:
            return EngineTiming("xla_loop", note="not measured: no time left for measuring")
        give_up_s = 2 * graph.step_s
        return self._measure("xla_loop", is_enough=lambda step_s: step_s > give_up_s)

    def _is_overhead_bound(self, graph: EngineTiming) -> bool:
        operations = self._loops["graph"].operations
        working = sum(count for name, count in operations.items() if name not in FREE_OPERATIONS)
        return graph.step_s < OVERHEAD_BOUND_S_PER_OPERATION * working

    def _is_short(self, step_s: float) -> bool:
        return step_s * self._steps_left < SHORT_RUN_S

    def _decision(self, reason: str, *candidates: EngineTiming) -> tuple[EngineDecision, Loop]:
        graph, *compiled = candidates
        faster = [timing for timing in compiled if timing.step_s <= MAX_TIME_RATIO * graph.step_s]
        best = min(faster, key=lambda candidate: candidate.step_s, default=graph)
        autotune_s = time.perf_counter() - self._started_at
        return EngineDecision(best.engine, reason, candidates, autotune_s), self._loops[best.engine]

    def _measure(
        self, engine: EngineName, is_enough: Callable[[float], bool], measure_s: float = MEASURE_S
    ) -> EngineTiming:
        """Measure an engine, or note why it cannot be used."""
        try:
            compile_s = self._compile(engine)
        except (tf.errors.OpError, ValueError, NotImplementedError) as error:
            cause = (str(error).strip().splitlines() or ["no details"])[0]
            return EngineTiming(engine, note=f"cannot be compiled: {cause[:200]}")
        return self._time(engine, compile_s, is_enough, measure_s)

    def _compile(self, engine: EngineName) -> float:
        """Seconds to trace the loop of an engine, to compile it, and for its first step."""
        start = time.perf_counter()
        loop = self._loops[engine] = self._runner.build_loop(engine, self._first_step)
        self._trace_s = time.perf_counter() - start
        self._scales = self._runner.state.scales
        self._run(loop, 1)
        return time.perf_counter() - start

    def _time(
        self,
        engine: EngineName,
        compile_s: float,
        is_enough: Callable[[float], bool],
        measure_s: float = MEASURE_S,
    ) -> EngineTiming:
        """Measure one step, and more unless `is_enough`. The fastest measurement counts."""
        loop = self._loops[engine]
        count, step_s, steps, seconds = 1, math.inf, 0, 0.0
        while True:
            took_s = self._run(loop, count)
            # Other load on the machine makes steps slower, never faster.
            step_s = min(step_s, took_s / count)
            steps, seconds = steps + count, seconds + took_s
            if seconds >= measure_s or is_enough(step_s):
                return EngineTiming(engine, compile_s, step_s, steps)
            count = max(2 * count, int(0.5 * measure_s * count / max(took_s, 1e-6)))

    def _run(self, loop: Loop, steps: int) -> float:
        """Seconds for this many steps, repeating the window's steps as often as needed."""
        window = self._runner.window(self._first_step)
        done, start = 0, time.perf_counter()
        while done < steps:
            count = min(steps - done, window.end_batch - window.first_batch)
            self._scales, rows = loop.run(self._scales, window.examples, 0, self._first_step, count)
            done += len(rows)
        return time.perf_counter() - start


def is_fast_under_xla(operations: Mapping[str, int]) -> bool:
    """Whether a step has no operation that XLA is slow at on a CPU."""
    return not _has_operations(operations, SLOW_UNDER_XLA)


def _has_operations(operations: Mapping[str, int], parts: Sequence[str]) -> bool:
    return any(part in name for name in operations for part in parts)


def _never_enough(step_s: float) -> bool:
    return False
