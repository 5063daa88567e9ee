"""Chooses the engine by measuring the candidates on the job's own first steps.

The trial leaves no trace in the result: the state is copied before and put back after it. It is
bounded: one step first, and no candidate is compiled that the run is too short to pay back, or
that the one before has shown to be hopeless. On CPUs XLA makes small dense networks faster and
convolutions slower, inside a compiled loop by two orders of magnitude; so there the operations of
a step tell first whether a short run is worth a trial.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from ampcore.series import Event, EventType
from ampcore.train.loop import EngineName, Loop
from ampcore.train.session import Session

MEASURE_S: Final = 0.15
"""Of steps, to know how long one takes."""
FEW_STEPS: Final = 50
"""So few are not worth the two or three that a trial takes."""
SHORT_RUN_S: Final = 20.0
"""A run that graph ends sooner is worth no trial, unless its steps are overhead-bound."""
QUICK_MEASURE_S: Final = 0.03
"""Of steps, to know how long one takes that is overhead-bound: some dozens."""
OVERHEAD_BOUND_S: Final = 5e-6
"""For each operation: a step that takes less spends its time between them, 1 to 2 µs each."""
NO_WORK: Final = frozenset({"Const", "Identity", "NoOp", "Placeholder"})
"""Operations that take no time."""
SLOW_IN_XLA: Final = ("Conv", "Pool", "Scatter", "Unique", "Segment", "TensorListPopBack")
"""Parts of the names of operations that XLA makes no faster on a CPU, or far slower: convolutions,
rows of tables, loops over a sequence."""
FUSED_SHARE: Final = 0.5
"""Of the time of an overhead-bound step that is left in a compiled loop."""
LOOP_COMPILES: Final = 6.0
"""So many times longer than TensorFlow traces, XLA takes for the loop of an overhead-bound step."""
SHARE: Final = 0.1
"""Of the run that a trial may take, but MOST_S at the most."""
MOST_S: Final = 60.0
XLA_COMPILES: Final = 5.0
"""So many times longer than TensorFlow traces, at the worst that was seen."""
HOPELESS: Final = 1.5
"""So much slower than graph step by step: a compiled loop would be slower still."""
WORTH: Final = 0.95
"""A compiled engine must take at most this share of graph's time."""


@dataclass(frozen=True)
class Measured:
    """One candidate: seconds to trace and compile, and seconds a step; or why there are none.

    `steps` were measured.
    """

    engine: EngineName
    compile_s: float = 0.0
    step_s: float = math.inf
    steps: int = 0
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The figures there are."""
        if not self.steps:
            return {"engine": self.engine, "note": self.note}
        figures = {"compile_s": self.compile_s, "step_s": self.step_s, "steps": self.steps}
        return {"engine": self.engine, **figures}


@dataclass(frozen=True)
class Decision:
    """The engine, why it, and the figures."""

    engine: EngineName
    reason: str
    candidates: tuple[Measured, ...] = ()
    trial_s: float = 0.0

    def event(self, step: int | None) -> Event:
        """The decision in the ledger."""
        facts = {
            "engine": self.engine,
            "reason": self.reason,
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "trial_s": self.trial_s,
        }
        return Event(EventType.ENGINE, step, facts)


def choose(session: Session, first_step: int, steps_left: int, device: str) -> Decision:
    """Measure the engines from `first_step` on, and let the session use the fastest."""
    if steps_left < FEW_STEPS:
        session.use("graph", first_step)
        return Decision("graph", f"too few steps for a trial: {steps_left}")
    began = time.perf_counter()
    before = session.capture()
    try:
        decision, loop = _Trial(session, first_step, steps_left, device, began).decide()
    finally:
        session.restore(before)
    session.use_loop(loop)
    return decision


class _Trial:
    def __init__(
        self, session: Session, first_step: int, steps_left: int, device: str, began: float
    ) -> None:
        self._session, self._first_step, self._left = session, first_step, steps_left
        self._device, self._began = device, began
        self._loops: dict[EngineName, Loop] = {}

    def decide(self) -> tuple[Decision, Loop]:
        compile_s = self._compile("graph")
        if self._device == "cpu" and fuses(self._loops["graph"].operations):
            graph = self._time("graph", compile_s, _never, QUICK_MEASURE_S)
            if self._is_overhead_bound(graph):
                return self._decide_overhead_bound(graph)
        return self._decide_other(self._time("graph", compile_s, until=self._is_short))

    def _decide_overhead_bound(self, graph: Measured) -> tuple[Decision, Loop]:
        """Of a step that XLA makes faster: only whether compiling it pays in this run."""
        expected_s = graph.step_s * self._left
        saved_s = (1.0 - FUSED_SHARE) * expected_s
        if saved_s < LOOP_COMPILES * graph.compile_s:
            reason = f"compiling would take longer than it saves: about {saved_s:.1f} s"
            return self._decision(reason, graph)
        step = Measured("xla_step", note="not tried: the compiled loop saves the same and more")
        loop = self._measure("xla_loop", _never, QUICK_MEASURE_S)
        return self._decision("the fastest on the job's own first steps", graph, step, loop)

    def _decide_other(self, graph: Measured) -> tuple[Decision, Loop]:
        expected_s = graph.step_s * self._left
        if self._is_short(graph.step_s):
            return self._decision(f"too short a run for a trial: about {expected_s:.1f} s", graph)
        budget_s = min(SHARE * expected_s, MOST_S)
        if XLA_COMPILES * graph.compile_s > budget_s:
            reason = f"compiling would take too much of a run of about {expected_s:.0f} s"
            return self._decision(reason, graph)
        hopeless_s = 2 * HOPELESS * graph.step_s
        step = self._measure("xla_step", until=lambda step_s: step_s > hopeless_s)
        loop = self._loop_after(graph, step, budget_s)
        return self._decision("the fastest on the job's own first steps", graph, step, loop)

    def _loop_after(self, graph: Measured, step: Measured, budget_s: float) -> Measured:
        if not step.steps:
            return Measured("xla_loop", note="not tried: XLA cannot compile the step")
        if step.step_s > HOPELESS * graph.step_s:
            return Measured("xla_loop", note="not tried: XLA's step is far slower")
        if time.perf_counter() - self._began + step.compile_s > budget_s:
            return Measured("xla_loop", note="not tried: the time for the trial is used up")
        hopeless_s = 2 * graph.step_s
        return self._measure("xla_loop", until=lambda step_s: step_s > hopeless_s)

    def _is_overhead_bound(self, graph: Measured) -> bool:
        operations = self._loops["graph"].operations
        working = sum(count for name, count in operations.items() if name not in NO_WORK)
        return graph.step_s < OVERHEAD_BOUND_S * working

    def _is_short(self, step_s: float) -> bool:
        return step_s * self._left < SHORT_RUN_S

    def _decision(self, reason: str, *candidates: Measured) -> tuple[Decision, Loop]:
        graph, *compiled = candidates
        faster = [other for other in compiled if other.step_s <= WORTH * graph.step_s]
        best = min(faster, key=lambda candidate: candidate.step_s, default=graph)
        trial_s = time.perf_counter() - self._began
        return Decision(best.engine, reason, candidates, trial_s), self._loops[best.engine]

    def _measure(
        self, engine: EngineName, until: Callable[[float], bool], enough_s: float = MEASURE_S
    ) -> Measured:
        """What an engine takes, or why it cannot be used."""
        try:
            compile_s = self._compile(engine)
        except (tf.errors.OpError, ValueError, NotImplementedError) as error:
            cause = (str(error).strip().splitlines() or ["no details"])[0]
            return Measured(engine, note=f"cannot be compiled: {cause[:200]}")
        return self._time(engine, compile_s, until, enough_s)

    def _compile(self, engine: EngineName) -> float:
        """Seconds to trace the loop of an engine, to compile it, and for its first step."""
        start = time.perf_counter()
        loop = self._loops[engine] = self._session.loop(engine, self._first_step)
        self._run(loop, 1)
        return time.perf_counter() - start

    def _time(
        self,
        engine: EngineName,
        compile_s: float,
        until: Callable[[float], bool],
        enough_s: float = MEASURE_S,
    ) -> Measured:
        """One step; more, unless `until` knows enough from it. The fastest run counts."""
        loop = self._loops[engine]
        count, step_s, steps, seconds = 1, math.inf, 0, 0.0
        while True:
            took_s = self._run(loop, count)
            # Whatever else the machine does makes steps slower, never faster.
            step_s = min(step_s, took_s / count)
            steps, seconds = steps + count, seconds + took_s
            if seconds >= enough_s or until(step_s):
                return Measured(engine, compile_s, step_s, steps)
            count = max(2 * count, int(0.5 * enough_s * count / max(took_s, 1e-6)))

    def _run(self, loop: Loop, steps: int) -> float:
        """Seconds that so many steps take, as often over the window's steps as it takes."""
        window = self._session.window(self._first_step)
        done, start = 0, time.perf_counter()
        while done < steps:
            count = min(steps - done, window.end_batch - window.first_batch)
            done += len(loop.run(window.examples, 0, self._first_step, count))
        return time.perf_counter() - start


def fuses(operations: Mapping[str, int]) -> bool:
    """Whether XLA on a CPU has nothing to do in which it is slow."""
    return not any(slow in name for name in operations for slow in SLOW_IN_XLA)


def _never(step_s: float) -> bool:
    return False
