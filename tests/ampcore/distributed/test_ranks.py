"""Jobs on two ranks: two processes that train the same weights, compared with one process.

All of them run in one launch, because each process connects for seconds.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from ampcore import Trainer
from ampcore.phases import IN_STEP
from ampspec.jobs import JobSpec
from tests.ampcore.distributed import rank_program
from tests.ampcore.distributed.rank_jobs import BAD_EXAMPLE, BATCH, JOBS, batch_norm_job, own_model
from tests.ampcore.distributed.rank_processes import arrays_of, parts_for, run_program

pytestmark = pytest.mark.xdist_group("python_commands")

JOBS_WITH_WEIGHTS = (
    *(name for name in JOBS if name not in {"differs", "scale_differs", "early_stopping"}),
    *(
        "resumed",
        "bad_example",
        "batch_norm_local",
        "batch_norm_mean",
        "batch_norm_sync",
        "own_model",
    ),
)
FOLLOWS = 1e-6
"""How closely the weights follow those of one process: other sums of the same numbers."""


@pytest.fixture(scope="module")
def ranks(request, python_commands, tmp_path_factory):
    """What both ranks have seen, and the folders of their jobs."""
    folder, parts = tmp_path_factory.mktemp("ranks"), parts_for(request)
    found = run_program(python_commands / "python", rank_program, folder, *parts)
    by_name = {name: arrays_of(folder, name) for name in (() if parts else JOBS_WITH_WEIGHTS)}
    arrays = [{name: both[rank] for name, both in by_name.items()} for rank in range(2)]
    return SimpleNamespace(found=found, arrays=arrays, folder=folder)


@pytest.fixture(scope="module")
def alone():
    """Trains a job in this process, which accumulates the micro-batches of both ranks."""

    def train(document):
        accumulate = 2 * document["train"].get("accumulate", 1)
        changed = {
            "train": document["train"] | {"accumulate": accumulate},
            "runtime": document["runtime"] | {"devices": 1, "exchange": {}},
        }
        return train_here(Trainer(JobSpec.parse(document | changed)))

    return train


def train_here(trainer):
    blocks = []
    result = trainer.run(blocks.append)
    rows = {
        name: np.concatenate([block[name] for block in blocks])
        for name in ("loss", "skipped", "loss_scale", "grad_norm")
    }
    arrays = trainer._current_run.runner.state.capture()
    return SimpleNamespace(rows=rows, arrays=arrays, result=result.to_json())


def assert_close(found, expected, tolerance=FOLLOWS):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)


def trained(arrays):
    """The variables without statistics, which one process updates after each micro-batch."""
    return {name: array for name, array in arrays.items() if "moving_" not in name}


def of_type(observed, kind):
    return [data for name, _, data in observed["events"] if name == kind]


def test_collectives_inside_a_compiled_loop(ranks):
    for rank, found in enumerate(ranks.found):
        own = found["collectives"]
        assert (own["total"], own["skipped"]) == ([6.0] * 3, 1)
        gathered, sent = [[0.0], [0.0], [1.0], [1.0]], [0.0, 1.0, 10.0, 11.0]
        exchanged = [each + 2 * rank for each in sent]
        assert own["others"] == [[1, 7], gathered, exchanged, [6.0]]
        assert own["again"] == own["others"]
        assert own["objects"] == [{"rank": 0}, [0, 1]]


def test_arrays_of_any_dtype_reach_all_ranks(ranks):
    expected = [["a", "float16", [1.5]], ["b", "uint8", 3], ["c", "bool", [[True] * 3] * 2]]
    assert [found["collectives"]["arrays"] for found in ranks.found] == [expected] * 2


@pytest.mark.parametrize("name", ["dropout", "accumulated", "gan"])
def test_two_ranks_train_as_one_process_that_accumulates_twice_as_much(ranks, alone, name):
    expected, found = alone(JOBS[name]), ranks.found[0][name]
    for column in ("skipped", "loss_scale"):
        assert found["rows"][column] == expected.rows[column].tolist()
    for column in ("loss", "grad_norm"):
        np.testing.assert_allclose(found["rows"][column], expected.rows[column], rtol=1e-5)
    assert_close(trained(ranks.arrays[0][name]), trained(expected.arrays))
    assert found["result"]["global_batch_size"] == expected.result["global_batch_size"]


@pytest.mark.parametrize(
    "name", ["dropout", "float16_exchange", "bfloat16_exchange", "xla_step", "batch_norm_mean"]
)
def test_all_ranks_have_the_same_bits(ranks, name):
    one, other = (arrays[name] for arrays in ranks.arrays)
    assert {key: array.tobytes() for key, array in one.items()} == {
        key: array.tobytes() for key, array in other.items()
    }


def test_steps_are_skipped_on_both_ranks(ranks):
    skipped = ranks.found[0]["dropout"]["rows"]["skipped"]
    assert 5 < sum(skipped) < len(skipped)
    assert ranks.found[0]["xla_step"]["rows"]["skipped"] == skipped


def test_a_resumed_run_ends_as_the_undisturbed_one(ranks):
    found = ranks.found[0]
    assert found["stopped"]["result"]["steps"] < found["resumed"]["result"]["steps"] == 30
    assert (
        found["resumed"]["result"]["weights_digest"] == found["dropout"]["result"]["weights_digest"]
    )
    for arrays in ranks.arrays:
        for name, array in arrays["dropout"].items():
            assert arrays["resumed"][name].tobytes() == array.tobytes(), name


def test_a_run_resumes_on_another_number_of_ranks_with_the_same_global_batch(ranks, tmp_path):
    document = JOBS["dropout"]
    runtime = document["runtime"] | {"elastic": {"min": 1, "max": 2}}
    folder = ranks.folder / "stopped"
    steps = ranks.found[0]["stopped"]["result"]["steps"]
    for newer in (folder / "checkpoints").glob("*"):
        if newer.stem.endswith("30"):
            newer.unlink()
    trainer = Trainer(
        JobSpec.parse(document | {"runtime": runtime}), output_dir=folder, resume=True
    )
    events = []
    trainer.run(on_event=events.append)
    [resumed] = [event for event in events if event.type == "resumed"]
    assert resumed.data["steps"] == steps
    assert_close(trainer._current_run.runner.state.capture(), ranks.arrays[0]["dropout"])


@pytest.mark.parametrize("name", ["float16_exchange", "bfloat16_exchange"])
def test_gradients_that_travel_in_16_bits_train_nearly_as_well(ranks, alone, name):
    expected = alone(JOBS[name])
    found = ranks.found[0][name]["rows"]
    # Rounded gradients train other weights, which may overflow one step earlier or later.
    more = sum(found["skipped"]) - expected.rows["skipped"].sum()
    assert abs(more) <= (2 if name == "float16_exchange" else 0)
    np.testing.assert_allclose(found["loss"][-1], expected.rows["loss"][-1], rtol=0.1)
    assert found["loss"] != expected.rows["loss"].tolist()


def test_synchronized_statistics_are_those_of_one_large_batch(ranks):
    expected = train_here(batch_norm_job(batch_size=2 * BATCH))
    assert_close(ranks.arrays[0]["batch_norm_sync"], expected.arrays, 1e-5)
    # Of the other kinds each rank normalises its own examples.
    loss = ranks.found[0]["batch_norm_mean"]["rows"]["loss"]
    assert not np.allclose(loss, expected.rows["loss"], rtol=1e-5)


def test_local_statistics_differ_and_everything_else_does_not(ranks):
    one, other = (arrays["batch_norm_local"] for arrays in ranks.arrays)
    differing = {name for name, array in one.items() if array.tobytes() != other[name].tobytes()}
    assert differing
    assert all("moving_" in name for name in differing)
    mean = ranks.arrays[0]["batch_norm_mean"]
    for name in differing:
        np.testing.assert_allclose(mean[name], (one[name] + other[name]) / 2, rtol=1e-5)


def test_batches_that_arrive_are_divided_between_the_ranks(ranks):
    expected = train_here(own_model(train={"accumulate": 2}))
    assert_close(ranks.arrays[0]["own_model"], expected.arrays)


def test_an_overflow_names_the_rank_and_its_example(ranks):
    [overflow] = of_type(ranks.found[0]["bad_example"], "overflow")[:1]
    assert (overflow["rank"], overflow["ranks"]) == (1, [1])
    assert overflow["diagnosis"] == "data"
    assert overflow["batch"]["bad_examples"] == [BAD_EXAMPLE]
    assert overflow["sentence"].startswith("Rank 1: ")


def test_an_overflow_on_rank_1_alone_skips_the_step_on_all_ranks(ranks):
    """Where Keras's LossScaleOptimizer applies it: see `test_keras_replicas.py`."""
    skipped = ranks.found[0]["bad_example"]["rows"]["skipped"]
    assert skipped == [step % 4 == 3 for step in range(8)]
    for own in ranks.arrays:
        assert all(np.isfinite(array).all() for array in own["bad_example"].values())


def test_the_ranks_stop_early_after_the_same_evaluation(ranks):
    results = [found["early_stopping"]["result"] for found in ranks.found]
    assert results[0]["stopped_early"] is not None
    assert results[1]["stopped_early"] == results[0]["stopped_early"]
    assert results[1]["steps"] == results[0]["steps"] < 8 * 11


def test_many_exchanges_need_few_threads(ranks):
    """TensorFlow's own timeout would keep a thread for each of them."""
    for found in ranks.found:
        own = found["collectives"]
        assert own["many"] == [float(rank_program.MANY)] * 3
        assert own["threads"] < rank_program.MANY / 2


def test_only_rank_0_reports_the_job(ranks):
    one, other = (found["dropout"] for found in ranks.found)
    assert [name for name, _, _ in other["events"]] == ["started"]
    assert other["columns"] == []
    started = of_type(one, "started")[0]
    assert (started["ranks"], started["global_batch_size"]) == (2, 128)
    assert "communication_s" not in one["columns"]
    assert (ranks.folder / "dropout" / "model.keras").exists()
    times = of_type(one, "ranks")[-1]
    assert [each["rank"] for each in times["ranks"]] == [0, 1]
    assert 0 < times["communication_share"] < 1
    assert one["result"]["ranks"]["steps"] == times["steps"]


@pytest.mark.quick
@pytest.mark.parametrize("name", ["slow_input", "slow_step"])
def test_a_rank_that_reads_or_computes_slowly_is_named(ranks, name):
    found = ranks.found[0][name]
    last = of_type(found, "ranks")[-1]
    assert last["slow_ranks"] == found["result"]["ranks"]["slow_ranks"] == [1]
    assert last["sentence"].startswith("The others wait for rank 1")


def test_a_profile_has_the_communication_as_a_phase_of_its_own(ranks):
    [event] = of_type(ranks.found[0]["profiled"], "profile")
    report = json.loads((ranks.folder / "profiled" / event["file"]).read_bytes())
    phases = {row["phase"]: row["time_s"] for row in report["phases"]}
    assert set(IN_STEP) | {"communication"} <= set(phases)
    reductions = [row for row in report["operations"] if row["type"] == "CollectiveReduceV2"]
    assert {(row["phase"], row["calls"]) for row in reductions} == {("communication", 1)}
    assert 0 < sum(row["self_s"] for row in reductions) <= phases["communication"]
    assert of_type(ranks.found[1]["profiled"], "profile") == []


@pytest.mark.quick
@pytest.mark.parametrize("name", ["differs", "scale_differs"])
def test_ranks_with_different_weights_or_scales_end_the_attempt(ranks, name):
    for found in ranks.found:
        error = found[name]["error"]
        assert error["reason"] == "ranks_differ"
        assert "Before step 10 rank 1 did not have the weights" in error["message"]


@pytest.mark.quick
def test_a_killed_rank_ends_the_others_and_is_named(ranks):
    error = ranks.found[0]["killed"]["error"]
    assert error["reason"] == "rank_lost"
    assert error["message"].startswith("Rank 1 was lost: ")
