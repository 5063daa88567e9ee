"""Profiles of real runs: what they contain, and that the training does not notice them."""

import gzip
import json

import pytest
import tensorflow as tf

from ampcore.profile import analysis, recorder, trace_level
from ampcore.profile.analysis_process import AnalysisProcess, ProfileFailed
from ampcore.profile.operations import ProfileContext
from ampcore.training import Trainer
from ampcore.training.profile_steps import profile_steps
from ampspec.jobs import JobSpec
from ampspec.telemetry.events import PROFILE_FAILED, PROFILE_NOT_TAKEN

SPEC = {
    "model": {"kind": "mlp", "hidden": [16], "dropout": 0.2},
    "data": {"kind": "digits", "batch_size": 64},
    "precision": {"policy": "mixed_bfloat16"},
    "train": {"steps": 130},
    "runtime": {"engine": "graph"},
}
SHORT = {"train": {"steps": 10}, "telemetry": {"ranges": {"enabled": False}}}
PROFILE = {"start": 120, "steps": 4}
"""After 90 steps TensorFlow knows the cheap operations, and does not record them by itself."""
EARLY_PROFILE = {"start": 5, "steps": 4}


def spec_with(profile, **sections):
    runtime = {**SPEC["runtime"], **({} if profile is None else {"profile": profile})}
    return JobSpec.parse({**SPEC, "runtime": runtime, **sections})


def run(spec, folder, **options):
    """A run: its result, and its events by type."""
    events = []
    trainer = Trainer(spec, output_dir=folder, **options)
    result = trainer.run(None, events.append)
    return result, {event.type: event for event in events if event.type in ("profile", "warning")}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """A run with a profile: its folder, result, event and report."""
    folder = tmp_path_factory.mktemp("profiled")
    result, events = run(spec_with(PROFILE), folder)
    event = events["profile"]
    return folder, result, event, json.loads((folder / event.data["file"]).read_bytes())


def test_a_profile_has_exactly_the_steps_that_were_asked_for(profiled):
    _, _, event, report = profiled
    assert (report["first_step"], report["steps"], event.step) == (120, 4, 123)
    forward = [row for row in report["operations"] if row["phase"] == "forward"]
    assert {row["calls"] for row in forward} == {1}


def test_each_phase_of_a_step_is_told_apart(profiled):
    *_, report = profiled
    phases = {row["phase"]: row["time_s"] for row in report["phases"]}
    assert {"input", "forward", "backward", "unscale_and_check", "update"} <= set(phases)
    assert all(time_s > 0 for time_s in phases.values())
    types = {row["phase"]: set() for row in report["operations"]}
    for row in report["operations"]:
        types[row["phase"]].add(row["type"])
    assert "AssignVariableOp" in types["update"]
    assert "L2Loss" in types["unscale_and_check"]


def test_dtypes_are_those_of_the_executed_operations(profiled):
    *_, report = profiled
    products = {
        (row["layer"], row["phase"]): row["dtype"]
        for row in report["operations"]
        if "MatMul" in row["type"]
    }
    assert products["dense_1", "forward"] == products["dense_1", "backward"] == "bfloat16"
    assert products["predictions", "forward"] == products["predictions", "backward"] == "float32"
    known = [row for row in report["operations"] if row["dtype"] != "unknown"]
    assert sum(row["self_s"] for row in known) > 0.5 * report["busy_s"]


def test_the_results_are_those_without_a_profile_bit_for_bit(profiled, tmp_path):
    _, result, *_ = profiled
    plain, _ = run(spec_with(None), tmp_path)
    assert plain.weights_digest == result.weights_digest


def test_a_tensorflow_without_levels_of_detail_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(trace_level, "_level", lambda: None)
    events = []
    Trainer(spec_with(EARLY_PROFILE, **SHORT), output_dir=tmp_path).run(None, events.append)
    codes = [event.data["code"] for event in events if event.type == "warning"]
    assert recorder.INCOMPLETE in codes
    assert any(event.type == "profile" for event in events)


def test_the_traces_are_files_for_perfetto_and_tensorboard(profiled):
    folder, _, event, _ = profiled
    names = [name.rpartition("/")[2] for name in event.data["files"]]
    assert names == [analysis.REPORT, analysis.TRACE, analysis.PERFETTO]
    assert sorted(path.name for path in (folder / "profile" / "step-120").iterdir()) == sorted(
        names
    )
    with gzip.open(folder / event.data["files"][2]) as trace:
        document = json.load(trace)
    assert any(event.get("name") == "Cast" for event in document["traceEvents"])
    assert "phase.forward/dense_1" in json.dumps(document["stackFrames"])


def test_tensorflows_own_table_has_the_same_times(profiled):
    """The converter of the pinned version, whose table is by operation, in microseconds."""
    folder, _, _, report = profiled
    converter = analysis.converter()
    trace = str(folder / "profile" / "step-120" / analysis.TRACE)
    data, is_valid = converter.xspace_to_tools_data([trace], "framework_op_stats", {})
    assert is_valid
    table = json.loads(data)[0]
    columns = [column["id"] for column in table["cols"]]
    rows = [dict(zip(columns, (c["v"] for c in row["c"]), strict=True)) for row in table["rows"]]
    longest = next(row["type"] for row in report["operations"] if row["phase"] == "forward")
    theirs = [row["total_self_time"] * 1e-6 for row in rows if row["type"] == longest]
    ours = [row["self_s"] for row in report["operations"] if row["type"] == longest]
    assert theirs
    assert sum(ours) * report["steps"] == pytest.approx(sum(theirs), rel=0.01)


def test_the_first_steps_are_left_out(tmp_path):
    _, events = run(spec_with({"start": 0, "steps": 3}, **SHORT), tmp_path)
    assert events["profile"].data["first_step"] == recorder.WARMUP_STEPS


def test_a_run_that_ends_earlier_has_a_shorter_profile(tmp_path):
    _, events = run(spec_with({"start": 5, "steps": 100}, **SHORT), tmp_path)
    assert events["profile"].data["steps"] == 10 - 5


def test_a_run_that_ends_before_its_profile_says_so(tmp_path):
    _, events = run(spec_with({"start": 50, "steps": 5}, **SHORT), tmp_path)
    assert "profile" not in events
    assert events["warning"].data["code"] == PROFILE_NOT_TAKEN
    assert "step 50" in events["warning"].data["message"]


def test_a_profile_on_demand_starts_with_the_next_steps(tmp_path):
    events = []
    trainer = Trainer(spec_with(None, **SHORT), output_dir=tmp_path)

    def request_once(block):
        if block.first_step == 0:
            trainer.request_profile(3)

    trainer.run(request_once, events.append)
    [event] = [event for event in events if event.type == "profile"]
    assert event.data["steps"] == 3


def test_a_profile_requested_in_the_last_steps_is_said_not_to_be_taken(tmp_path):
    events = []
    trainer = Trainer(spec_with(None, train={"steps": recorder.WARMUP_STEPS}), output_dir=tmp_path)
    trainer.request_profile(3)
    trainer.run(None, events.append)
    [warning] = [one for one in events if one.data.get("code") == PROFILE_NOT_TAKEN]
    assert "before the requested profile was taken" in warning.data["message"]


def test_another_profiler_in_the_process_costs_only_the_profile(tmp_path):
    tf.profiler.experimental.start(str(tmp_path / "other"))
    try:
        result, events = run(spec_with(EARLY_PROFILE, **SHORT), tmp_path / "run")
    finally:
        tf.profiler.experimental.stop(save=False)
    assert result.steps == 10
    assert events["warning"].data["code"] == PROFILE_FAILED


def test_an_analysis_that_dies_costs_only_the_profile(tmp_path, monkeypatch):
    script = "from ampcore.profile import analysis\nprint(analysis.STARTED)\nexit('no memory')\n"
    (tmp_path / "dying.py").write_text(script)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("ampcore.profile.analysis_process.MODULE", "dying")
    result, events = run(spec_with(EARLY_PROFILE, **SHORT), tmp_path / "run")
    assert result.steps == 10
    assert events["warning"].data["code"] == PROFILE_FAILED
    assert "no memory" in events["warning"].data["message"]


def test_where_no_process_can_start_the_report_has_no_trace_for_perfetto(tmp_path, monkeypatch):
    monkeypatch.setattr("ampcore.profile.analysis_process.sys.executable", "/no/such/python")
    _, events = run(spec_with(EARLY_PROFILE, **SHORT), tmp_path)
    names = [name.rpartition("/")[2] for name in events["profile"].data["files"]]
    assert names == [analysis.REPORT, analysis.TRACE]


def test_a_converter_that_aborts_loses_only_the_trace_for_perfetto(tmp_path, monkeypatch):
    script = tmp_path / "aborting.py"
    script.write_text(
        "import os\nfrom ampcore.profile import analysis\n"
        "analysis.write_perfetto_trace = lambda folder: os.abort()\n"
        "raise SystemExit(analysis.main())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("ampcore.profile.analysis_process.MODULE", "aborting")
    _, events = run(spec_with(EARLY_PROFILE, **SHORT), tmp_path / "run")
    assert [name.rpartition("/")[2] for name in events["profile"].data["files"]] == [
        analysis.REPORT,
        analysis.TRACE,
    ]


def test_a_trace_that_is_none_fails_with_its_reason(tmp_path):
    (tmp_path / analysis.TRACE).write_bytes(b"\xff no trace")
    context = ProfileContext("float32", None, "graph", {"kind": "cpu"}, ["float32"], 5, 4, 1.0)
    process = AnalysisProcess(tmp_path, 8, context)
    with pytest.raises(ProfileFailed, match="expected a trace"):
        process.wait()


def test_the_steps_of_a_job_are_profiled_without_training_it_to_its_end(tmp_path):
    spec = JobSpec.parse({**SPEC, "train": {"epochs": 1000}})
    report = profile_steps(spec, start=3, steps=2, output=tmp_path / "out")
    assert (report["first_step"], report["steps"]) == (3, 2)
    assert (tmp_path / "out" / analysis.REPORT).is_file()
    assert (tmp_path / "out" / analysis.PERFETTO).is_file()
