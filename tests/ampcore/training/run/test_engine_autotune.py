import json
import math

import numpy as np
import pytest
import tensorflow as tf

from ampcore.data.feed import Window
from ampcore.models.classification import Classification
from ampcore.training.run import engine_autotune
from ampcore.training.run.engine_autotune import choose_engine
from ampspec.telemetry import EventType

FOREVER = 10**9
"""Steps of a run that is long enough for every measurement."""

DENSE = {"MatMul": 8, "Mul": 92, "Const": 900}
"""The operations of a step that XLA makes faster on a CPU, 100 of which take time."""
CONVOLUTIONS = {**DENSE, "Conv2D": 2}


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now


class FakeLoop:
    """It takes `compile_s` in its first call, then `step_s` a step."""

    def __init__(self, clock, operations, compile_s, step_s):
        self._clock, self._compile_s, self._step_s = clock, compile_s, step_s
        self.operations, self.steps = operations, 0

    def run(self, scales, examples, first_batch, first_step, count):
        self._clock.now += (0 if self.steps else self._compile_s) + count * self._step_s
        self.steps += count
        return scales, np.zeros((count, 5))


class FakeRunner:
    """`speeds`: by engine, the seconds to compile and those of a step, or an error.

    Tracing takes `trace_s`.
    """

    def __init__(self, clock, operations, trace_s, **speeds):
        self._clock, self._operations, self._speeds = clock, operations, speeds
        self._trace_s = trace_s
        self.loops, self.used, self.restored = {}, None, 0
        self.state = self
        self.scales = ()

    def capture(self):
        return {}

    def restore(self, arrays):
        self.restored += 1

    def window(self, step):
        return Window(None, 0, 100)

    def build_loop(self, engine, first_step):
        speed = self._speeds[engine]
        if isinstance(speed, Exception):
            raise speed
        self._clock.now += self._trace_s
        self.loops[engine] = FakeLoop(self._clock, self._operations, *speed)
        return self.loops[engine]

    def use_engine(self, engine, first_step):
        self.used = engine

    def use_loop(self, loop):
        self.used = next(name for name, other in self.loops.items() if other is loop)


@pytest.fixture
def decide(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(engine_autotune, "time", clock)

    def run(steps_left=FOREVER, device="cpu", operations=CONVOLUTIONS, trace_s=0, **speeds):
        runner = FakeRunner(clock, operations, trace_s, **speeds)
        return choose_engine(runner, 0, steps_left, device), runner

    return run


def test_the_fastest_engine_is_used(decide):
    decision, runner = decide(graph=(1, 0.01), xla_step=(1, 0.008), xla_loop=(1, 0.005))
    assert decision.engine == runner.used == "xla_loop"
    assert runner.restored == 1


def test_a_compiled_engine_must_be_clearly_faster(decide):
    decision, _ = decide(graph=(1, 0.01), xla_step=(1, 0.0099), xla_loop=(1, 0.0098))
    assert decision.engine == "graph"


def test_the_compiled_loop_is_not_measured_if_the_compiled_step_is_far_slower(decide):
    decision, runner = decide(graph=(1, 0.1), xla_step=(1, 0.2), xla_loop=(1000, 50))
    assert decision.engine == "graph"
    assert "xla_loop" not in runner.loops
    assert decision.candidates[2].note == "not measured: xla_step is far slower than graph"


def test_a_far_slower_compiled_step_is_measured_only_once(decide):
    _, runner = decide(graph=(1, 0.001), xla_step=(1, 0.1), xla_loop=(1, 0.1))
    assert runner.loops["xla_step"].steps == 2  # one to compile, one to measure


def test_a_far_slower_compiled_loop_is_measured_only_once(decide):
    _, runner = decide(graph=(1, 0.01), xla_step=(1, 0.01), xla_loop=(1, 1.0))
    assert runner.loops["xla_loop"].steps == 2


def test_a_short_run_uses_the_graph_engine_without_measuring_others(decide):
    decision, runner = decide(graph=(1, 0.001), steps_left=1000)
    assert list(runner.loops) == ["graph"]
    assert decision.engine == runner.used == "graph"
    assert decision.reason == "run too short to measure engines: about 1.0 s"


def test_a_short_run_of_overhead_bound_steps_is_compiled_if_that_saves_time(decide):
    decision, runner = decide(
        operations=DENSE, steps_left=10_000, graph=(0.2, 4e-4), xla_loop=(0.8, 2e-4)
    )
    assert decision.engine == runner.used == "xla_loop"
    assert list(runner.loops) == ["graph", "xla_loop"]
    assert [candidate.engine for candidate in decision.candidates] == [
        "graph",
        "xla_step",
        "xla_loop",
    ]
    assert decision.candidates[1].note.startswith("not measured")
    # Less than a tenth of the run, without the compilation that it needs anyway.
    assert decision.autotune_s - 0.8 < 0.1 * 10_000 * 4e-4
    assert runner.restored == 1


def test_an_overhead_bound_step_uses_graph_if_the_compiled_loop_is_slower(decide):
    decision, _ = decide(
        operations=DENSE, steps_left=10_000, graph=(0.2, 4e-4), xla_loop=(0.8, 5e-4)
    )
    assert decision.engine == "graph"


def test_overhead_bound_steps_are_not_compiled_if_the_run_is_too_short(decide):
    decision, runner = decide(operations=DENSE, steps_left=1000, graph=(0.2, 4e-4))
    assert decision.engine == runner.used == "graph"
    assert list(runner.loops) == ["graph"]
    assert decision.reason == "compiling would take longer than the 0.2 s that it could save"


@pytest.mark.parametrize(
    "parts",
    [
        {"operations": CONVOLUTIONS},
        {"operations": {**DENSE, "ResourceScatterUpdate": 3}},
        {"graph": (0.2, 9e-4)},  # spent within the operations, not between them
    ],
)
def test_other_steps_are_not_compiled_in_a_short_run(decide, parts):
    decision, runner = decide(
        **{"operations": DENSE, "steps_left": 10_000, "graph": (0.2, 4e-4)} | parts
    )
    assert list(runner.loops) == ["graph"]
    assert decision.reason.startswith("run too short to measure engines")


def test_on_a_gpu_the_compiled_loop_is_measured_at_once_if_that_saves_time(decide):
    # A small convolutional network on an H200: its first step loads the libraries of CUDA.
    decision, runner = decide(
        device="gpu", steps_left=8000, trace_s=0.2, graph=(7, 3e-3), xla_loop=(10, 7e-4)
    )
    assert decision.engine == runner.used == "xla_loop"
    assert list(runner.loops) == ["graph", "xla_loop"]
    assert decision.candidates[1].note == "not measured: xla_loop was faster on an H200"
    assert runner.restored == 1


def test_on_a_gpu_a_compiled_loop_that_is_slower_is_not_used(decide):
    decision, _ = decide(device="gpu", graph=(7, 0.02), xla_loop=(20, 0.05))
    assert decision.engine == "graph"


@pytest.mark.parametrize(
    ("trace_s", "steps_left"), [(0.2, 4000), (6, 1000)], ids=["short run", "large network"]
)
def test_on_a_gpu_a_run_that_compiling_would_not_shorten_uses_graph(decide, trace_s, steps_left):
    decision, runner = decide(
        device="gpu", steps_left=steps_left, trace_s=trace_s, graph=(7, 0.004)
    )
    assert list(runner.loops) == ["graph"]
    saved_s = steps_left * 0.004 / 2
    reason = f"compiling would take longer than the {saved_s:.1f} s that it could save"
    assert decision.reason == reason


def test_on_a_gpu_steps_with_rows_of_tables_are_compiled_only_in_a_long_run(decide):
    parts = {"operations": {"Einsum": 6, "UnsortedSegmentSum": 2}, "graph": (7, 0.02)}
    decision, runner = decide(device="gpu", steps_left=2000, **parts)
    assert list(runner.loops) == ["graph"]
    assert decision.reason == "compiling would take too large a share of a run of about 40 s"
    _, runner = decide(device="gpu", steps_left=4000, xla_loop=(20, 0.05), **parts)
    assert list(runner.loops) == ["graph", "xla_loop"]


def test_on_a_gpu_the_compiled_step_is_measured_if_the_loop_cannot_be_compiled(decide):
    decision, runner = decide(
        device="gpu", graph=(7, 0.02), xla_step=(9, 0.005), xla_loop=ValueError("no loop")
    )
    assert decision.engine == runner.used == "xla_step"
    assert decision.candidates[2].note == "cannot be compiled: no loop"


def test_other_load_on_the_machine_does_not_change_the_measured_step_time(decide, monkeypatch):
    run = FakeLoop.run

    def disturbed(loop, *given):
        rows = run(loop, *given)
        # Other load slows every call after the second step, which is the first one measured.
        loop._clock.now += 0.5 if loop.steps > 2 else 0.0
        return rows

    monkeypatch.setattr(FakeLoop, "run", disturbed)
    decision, _ = decide(graph=(1, 0.01), xla_step=(1, 0.02))
    assert decision.candidates[0].step_s == pytest.approx(0.01)


def test_the_compiled_loop_is_not_measured_if_that_takes_too_much_of_the_run(decide):
    # Autotuning may take a tenth of the 40 s.
    decision, runner = decide(graph=(0.5, 0.01), xla_step=(2, 0.009), steps_left=4000)
    assert decision.engine == runner.used == "xla_step"
    assert decision.candidates[2].note == "not measured: no time left for measuring"


def test_nothing_is_compiled_if_that_takes_too_much_of_the_run(decide):
    decision, runner = decide(graph=(1, 0.01), steps_left=4000)
    assert list(runner.loops) == ["graph"]
    assert decision.engine == runner.used == "graph"
    assert decision.reason == "compiling would take too large a share of a run of about 40 s"


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.InvalidArgumentError(None, None, "Detected unsupported operations\nmore"),
        tf.errors.UnimplementedError(None, None, "Detected unsupported operations"),
        ValueError("Detected unsupported operations"),
    ],
)
def test_a_compilation_error_is_noted_and_the_graph_engine_is_used(decide, error):
    decision, runner = decide(graph=(1, 0.01), xla_step=error)
    assert decision.engine == runner.used == "graph"
    _, step, loop = decision.candidates
    assert step.note == "cannot be compiled: Detected unsupported operations"
    assert loop.note == "not measured: XLA cannot compile the step"
    assert runner.restored == 1


def test_an_error_of_the_graph_engine_is_raised(decide):
    with pytest.raises(ValueError, match="no such shape"):
        decide(graph=ValueError("no such shape"))


def test_each_engine_is_measured_for_the_minimum_time(decide):
    decision, _ = decide(graph=(1, 1e-4), xla_step=(1, 1e-4), xla_loop=(1, 1e-4))
    for candidate in decision.candidates:
        assert candidate.steps * candidate.step_s >= 0.999 * engine_autotune.MEASURE_S
        assert candidate.step_s == pytest.approx(1e-4)
        assert candidate.compile_s == pytest.approx(1, abs=1e-3)


def test_the_event_has_the_measurements(decide):
    error = ValueError("no such operation")
    decision, _ = decide(graph=(3, 0.05), xla_step=error)
    event = decision.event(7)
    json.dumps(event.data, allow_nan=False)
    graph, step, loop = event.data["candidates"]
    assert (event.type, event.step) == (EventType.ENGINE, 7)
    assert set(event.data) == {"engine", "reason", "candidates", "autotune_s"}
    assert graph == pytest.approx(
        {"engine": "graph", "compile_s": 3.05, "step_s": 0.05, "steps": graph["steps"]}
    )
    assert step == {"engine": "xla_step", "note": "cannot be compiled: no such operation"}
    assert set(loop) == {"engine", "note"}
    assert event.data["autotune_s"] > 3


EVERYTHING = {
    "model": {"kind": "mlp", "hidden": [16], "dropout": 0.2},
    "loss_scale": {"mode": "dynamic", "initial": 2.0**20, "growth_interval": 2},
    "precision": {"policy": "mixed_float16"},
    "optimizer": {"kind": "adam", "ema": 0.9},
}


OTHER, OVERHEAD_BOUND = (
    pytest.param(0.0, id="other"),
    pytest.param(math.inf, id="overhead_bound"),
)


@pytest.fixture(params=[OTHER, OVERHEAD_BOUND])
def kind_of_step(request, monkeypatch):
    """Treats no step or every step as overhead-bound, and lifts the limit of the measuring time.

    Both make the test independent of the speed of the machine.
    """
    monkeypatch.setattr(engine_autotune, "OVERHEAD_BOUND_S_PER_OPERATION", request.param)
    monkeypatch.setattr(engine_autotune, "MAX_AUTOTUNE_S", math.inf)
    return request.node.callspec.id


@pytest.mark.slow
@pytest.mark.parametrize("kind_of_step", [OTHER], indirect=True)
def test_autotuning_keeps_weights_slots_seeds_and_scales_bit_for_bit(make_runner, kind_of_step):
    runner = make_runner(**EVERYTHING)
    before = runner.state.capture()
    decision = choose_engine(runner, 0, FOREVER, "cpu")
    assert {candidate.engine for candidate in decision.candidates if candidate.steps} > {"graph"}
    np.testing.assert_equal(runner.state.capture(), before)


def test_a_job_that_xla_cannot_compile_trains_on_the_graph_engine(
    make_runner, monkeypatch, kind_of_step
):
    losses = Classification.losses

    def uncompilable(task, weights, non_trainable, batch, seed):
        x = tf.ensure_shape(tf.numpy_function(np.copy, [batch.x], tf.float32), batch.x.shape)
        return losses(task, weights, non_trainable, batch._replace(x=x), seed)

    monkeypatch.setattr(Classification, "losses", uncompilable)
    runner = make_runner(**EVERYTHING)
    before = runner.state.capture()
    decision = choose_engine(runner, 0, FOREVER, "cpu")
    assert decision.engine == runner.engine == "graph"
    tried = {"other": "xla_step", "overhead_bound": "xla_loop"}[kind_of_step]
    [note] = [candidate.note for candidate in decision.candidates if candidate.engine == tried]
    assert note.startswith("cannot be compiled: ")
    np.testing.assert_equal(runner.state.capture(), before)


@pytest.mark.parametrize(
    ("model", "data", "expected"),
    [
        ({"kind": "mlp", "hidden": [8]}, {"kind": "digits"}, True),
        ({"kind": "cnn"}, {"kind": "digits"}, False),
        (
            {"kind": "embedding", "slots": 1, "nnz": 1, "vocabulary": 9, "dim": 2},
            {"kind": "synthetic_clicks", "slots": 1, "nnz": 1, "vocabulary": 9, "examples": 99},
            False,
        ),
    ],
    ids=["mlp", "convolutions", "sparse"],
)
def test_only_dense_operations_are_fast_under_xla(make_runner, model, data, expected):
    runner = make_runner(model=model, data=data | {"batch_size": 32})
    assert engine_autotune.is_fast_under_xla(runner.build_loop("graph").operations) is expected


def test_a_run_that_autotunes_to_the_compiled_loop_equals_one_that_sets_it(run_job, monkeypatch):
    monkeypatch.setattr(engine_autotune, "OVERHEAD_BOUND_S_PER_OPERATION", math.inf)
    monkeypatch.setattr(engine_autotune, "LOOP_COMPILE_RATIO", 0.0)
    monkeypatch.setattr(engine_autotune, "MAX_TIME_RATIO", math.inf)  # on any machine
    parts = {"optimizer": {"kind": "sgd"}, "train": {"steps": engine_autotune.MIN_STEPS}}
    named, tuned = (run_job(**parts, runtime={"engine": name}) for name in ("xla_loop", "auto"))
    assert named.result.engine == tuned.result.engine == "xla_loop"
    assert tuned.without_times == named.without_times
    assert tuned.result.weights_digest == named.result.weights_digest


def test_a_run_that_autotunes_to_the_graph_engine_equals_one_that_sets_it(run_job):
    parts = EVERYTHING | {"data": {"kind": "digits", "batch_size": 32}, "train": {"epochs": 2}}
    named, tuned = run_job(**parts), run_job(**parts, runtime={"engine": "auto"})
    assert named.result.engine == tuned.result.engine == "graph"
    assert tuned.without_times == named.without_times
    assert tuned.result.weights_digest == named.result.weights_digest
    assert tuned.of(EventType.ENGINE)[0].data["candidates"][0]["steps"] > 0
    assert named.of(EventType.ENGINE)[0].data["candidates"] == []


def test_a_run_of_very_few_steps_builds_no_loop_to_measure(decide):
    decision, runner = decide(graph=(1, 9.0), steps_left=engine_autotune.MIN_STEPS - 1)
    assert decision.engine == runner.used == "graph"
    assert decision.candidates == ()
    assert not runner.loops
