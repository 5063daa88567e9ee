"""Chooses the engine by measuring the candidates on the job's own first steps.

The trial leaves no trace in the result: the state is copied before and put back after it. It is
bounded: one step first, and no candidate is compiled that the run is too short to pay back, or
that the one before has shown to be hopeless. On CPUs XLA makes small dense networks faster and
convolutions slower, inside a compiled loop by two orders of magnitude.
"""

import math
import time
from collections.abc import Callable
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
"""A run that the graph engine ends sooner is not worth a trial."""
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
    """One candidate: seconds to trace and compile, and seconds a step; or why there are none."""

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


def choose(session: Session, first_step: int, steps_left: int) -> Decision:
    """Measure the engines from `first_step` on, and let the session use the fastest."""
    if steps_left < FEW_STEPS:
        session.use("graph", first_step)
        return Decision("graph", f"too few steps for a trial: {steps_left}")
    began = time.perf_counter()
    before = session.capture()
    try:
        decision, loop = _Trial(session, first_step, steps_left, began).decide()
    finally:
        session.restore(before)
    session.use_loop(loop)
    return decision


class _Trial:
    def __init__(self, session: Session, first_step: int, steps_left: int, began: float) -> None:
        self._session, self._first_step, self._left = session, first_step, steps_left
        self._began = began
        self._loops: dict[EngineName, Loop] = {}

    def decide(self) -> tuple[Decision, Loop]:
        graph = self._measure("graph", until=self._is_short)
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

    def _is_short(self, step_s: float) -> bool:
        return step_s * self._left < SHORT_RUN_S

    def _decision(self, reason: str, *candidates: Measured) -> tuple[Decision, Loop]:
        graph, *compiled = candidates
        faster = [other for other in compiled if other.step_s <= WORTH * graph.step_s]
        best = min(faster, key=lambda candidate: candidate.step_s, default=graph)
        trial_s = time.perf_counter() - self._began
        return Decision(best.engine, reason, candidates, trial_s), self._loops[best.engine]

    def _measure(self, engine: EngineName, until: Callable[[float], bool]) -> Measured:
        """One step to compile and one to measure; more, unless `until` knows enough from those."""
        start = time.perf_counter()
        try:
            loop = self._loops[engine] = self._session.loop(engine, self._first_step)
            self._run(loop, 1)
        except (tf.errors.OpError, ValueError, NotImplementedError) as error:
            if engine == "graph":
                raise
            cause = (str(error).strip().splitlines() or ["no details"])[0]
            return Measured(engine, note=f"cannot be compiled: {cause[:200]}")
        compile_s = time.perf_counter() - start
        steps, seconds = 1, self._run(loop, 1)
        while seconds < MEASURE_S and not until(seconds / steps):
            steps = max(2 * steps, int(0.5 * MEASURE_S * steps / max(seconds, 1e-6)))
            seconds = self._run(loop, steps)
        return Measured(engine, compile_s, seconds / steps, steps)

    def _run(self, loop: Loop, steps: int) -> float:
        """Seconds that so many steps take, as often over the window's steps as it takes."""
        window = self._session.window(self._first_step)
        done, start = 0, time.perf_counter()
        while done < steps:
            count = min(steps - done, window.end_batch - window.first_batch)
            done += len(loop.run(window.examples, 0, self._first_step, count))
        return time.perf_counter() - start
