"""Jobs with a table whose rows are on two ranks, compared with one process.

All of them run in one launch, because each process connects for seconds.
"""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from ampcore import Trainer, checkpoint
from ampcore.checkpoint.tensors import open_tensors
from ampspec.jobs import JobSpec
from tests.ampcore.distributed import sharded_program
from tests.ampcore.distributed.rank_processes import arrays_of, parts_for, run_program
from tests.ampcore.distributed.sharded_jobs import (
    DIM,
    JOBS,
    OVERFLOW,
    VOCABULARY,
    overflow_job,
    plant_overflow_once,
)

pytestmark = pytest.mark.xdist_group("python_commands")

FOLLOWS = 1e-5
FOLLOWS_IN_16_BITS = 2.0**-10
"""One rounding in float16: processors add up the parts of a batch in different orders."""
TABLE = "model/model/0/embedding/embeddings"
WITH_WEIGHTS = (*JOBS, "again", "resumed", "resumed_from_one", "resumed_replicated", "overflow")


def train_alone(job, folder=None, *, resume=False, should_stop=None):
    trainer = Trainer(job, output_dir=folder, resume=resume)
    blocks, events = [], []
    stop = None if should_stop is None else lambda: should_stop(trainer)
    result = trainer.run(blocks.append, events.append, stop)
    names = ("loss", "skipped", "loss_scale", "grad_norm")
    rows = {name: np.concatenate([block[name] for block in blocks]) for name in names}
    arrays = trainer._current_run.runner.state.capture()
    return SimpleNamespace(rows=rows, arrays=arrays, result=result.to_json(), events=events)


@pytest.fixture(scope="module")
def ranks(request, python_commands, tmp_path_factory):
    """What both ranks have seen, their tables put together, and the folders of their jobs."""
    folder, parts = tmp_path_factory.mktemp("sharded"), parts_for(request)
    job = JobSpec.parse(JOBS["float16"])
    train_alone(
        job, folder / "alone", should_stop=lambda trainer: trainer._current_run.totals.steps > 0
    )
    found = run_program(python_commands / "python", sharded_program, folder, *parts)
    own = {name: arrays_of(folder, name) for name in WITH_WEIGHTS if name in found[0]}
    arrays = {
        name: {key: _whole(*(each[key] for each in parts)) for key in parts[0]}
        if found[0][name]["shards"]
        else parts[0]
        for name, parts in own.items()
    }
    return SimpleNamespace(found=found, own=own, arrays=arrays, folder=folder)


def _whole(first, second):
    """A table of which each rank has every other row; other arrays are the same on both."""
    if first.ndim == 0 or len(first) + len(second) != VOCABULARY:
        np.testing.assert_array_equal(first, second)
        return first
    whole = np.empty((VOCABULARY, *first.shape[1:]), first.dtype)
    whole[::2], whole[1::2] = first, second
    return whole


@pytest.fixture(scope="module")
def alone():
    """Trains a job in this process, which accumulates the micro-batches of both ranks."""
    found = {}

    def train(name):
        if name not in found:
            document = JOBS[name]
            accumulate = 2 * document["train"].get("accumulate", 1)
            runtime = {"engine": "graph"}
            changed = {
                "train": document["train"] | {"accumulate": accumulate},
                "runtime": runtime,
            }
            found[name] = train_alone(JobSpec.parse(document | changed))
        return found[name]

    return train


def assert_close(found, expected, tolerance=FOLLOWS):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", ["float32", "replicated", "float16", "accumulated"])
def test_two_ranks_train_as_one_process(ranks, alone, name):
    expected, found = alone(name), ranks.found[0][name]
    for column in ("skipped", "loss_scale"):
        assert found["rows"][column] == expected.rows[column].tolist()
    tolerance = FOLLOWS_IN_16_BITS if "16" in name else FOLLOWS
    np.testing.assert_allclose(found["rows"]["loss"], expected.rows["loss"], rtol=tolerance)
    assert_close(ranks.arrays[name], expected.arrays, tolerance)
    assert found["result"]["parameters"] == expected.result["parameters"]


def test_steps_are_skipped_and_applied_in_float16(ranks):
    skipped = ranks.found[0]["float16"]["rows"]["skipped"]
    assert 1 < sum(skipped) < len(skipped)
    assert ranks.found[0]["bfloat16"]["rows"]["skipped"] == [0] * 24


def test_the_exchanges_of_a_lookup_are_communication_in_a_profile(ranks):
    [event] = [data for kind, _, data in ranks.found[0]["bfloat16"]["events"] if kind == "profile"]
    report = json.loads((ranks.folder / "bfloat16" / event["file"]).read_bytes())
    exchanges = [row for row in report["operations"] if row["type"] == "CollectiveAllToAllV2"]
    assert {(row["phase"], row["calls"]) for row in exchanges} == {("communication", 1)}
    # Keys and rows on the way forward, gradients on the way back; other exchanges are reductions.
    assert len(exchanges) >= 3


@pytest.mark.parametrize("names", [("float32", "replicated"), ("float16", "float16_replicated")])
def test_a_sharded_table_trains_as_a_replicated_one(ranks, names):
    sharded, replicated = (ranks.found[0][name] for name in names)
    assert sharded["rows"]["skipped"] == replicated["rows"]["skipped"]
    tolerance = FOLLOWS_IN_16_BITS if "float16" in names else FOLLOWS
    np.testing.assert_allclose(sharded["rows"]["loss"], replicated["rows"]["loss"], rtol=tolerance)
    assert_close(*(ranks.arrays[name] for name in names), tolerance)


def test_each_rank_has_its_rows_of_the_table_and_of_the_optimizer_state(ranks):
    for rank, rows in enumerate([VOCABULARY - VOCABULARY // 2, VOCABULARY // 2]):
        own, shards = ranks.own["float16"][rank], ranks.found[rank]["float16"]["shards"]
        # The table, two moments, the average and when each of its rows was updated.
        assert len(shards) == 5
        assert {len(own[name]) for name in shards} == {rows}
        saved = (
            ranks.found[rank]["float16_replicated"]["bytes"] - ranks.found[rank]["float16"]["bytes"]
        )
        assert saved == (VOCABULARY - rows) * (4 * DIM * 4 + 8)


@pytest.mark.quick
def test_two_runs_are_equal_bit_for_bit_and_so_is_a_resumed_one(ranks):
    expected = ranks.found[0]["float16"]["result"]["weights_digest"]
    for name in ("again", "resumed"):
        assert ranks.found[0][name]["result"]["weights_digest"] == expected
        for key, array in ranks.arrays["float16"].items():
            assert ranks.arrays[name][key].tobytes() == array.tobytes(), (name, key)
    assert ranks.found[0]["stopped"]["result"]["steps"] < 24


@pytest.mark.parametrize("name", ["resumed_from_one", "resumed_replicated"])
def test_a_checkpoint_does_not_depend_on_the_ranks_that_saved_it(ranks, name):
    assert ranks.found[0][name]["result"]["steps"] == 24
    assert_close(ranks.arrays[name], ranks.arrays["float16"], 1e-4)


def test_one_process_resumes_a_checkpoint_of_two_ranks(ranks, tmp_path):
    [first, *_] = sorted((ranks.folder / "stopped" / "checkpoints").iterdir())
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / first.name).write_bytes(first.read_bytes())
    saved = checkpoint.load(first)
    assert saved.arrays[TABLE].shape == (VOCABULARY, DIM)
    assert 0 < saved.manifest.step < 24
    found = train_alone(JobSpec.parse(JOBS["float16"]), tmp_path, resume=True)
    assert_close(found.arrays, ranks.arrays["float16"], 1e-4)


@pytest.mark.parametrize("name", ["model", "model-best"])
def test_the_saved_models_have_the_whole_table(ranks, name):
    folder, best = ranks.folder / "best", ranks.found[0]["best"]["result"]
    table = keras.saving.load_model(folder / f"{name}.keras").get_layer("embedding").embeddings
    assert tuple(table.shape) == (VOCABULARY, DIM)
    is_last = np.array_equal(table.numpy(), ranks.arrays["best"][TABLE])
    assert is_last == (name == "model" or best["best"]["epoch"] == 2)
    with open_tensors(folder / "weights.safetensors") as file:
        saved = file.read("embedding/embeddings")
    np.testing.assert_array_equal(saved, ranks.arrays["best"][TABLE])


def test_all_ranks_evaluate_together(ranks, alone):
    expected, found = alone("best").result, ranks.found[0]["best"]["result"]
    assert found["val_loss"] == pytest.approx(expected["val_loss"], rel=1e-5)
    assert found["best"]["epoch"] == expected["best"]["epoch"]
    assert ranks.found[1]["best"]["result"]["val_loss"] == found["val_loss"]


@pytest.mark.quick
def test_an_overflow_in_the_rows_of_one_rank_skips_the_step_on_both(ranks):
    # Only rank 1 owns rows with infinite gradients; all other gradients are finite.
    found = ranks.found[0]["overflow"]
    job = overflow_job()
    alone = {"runtime": {"engine": "graph"}, "train": OVERFLOW["train"] | {"accumulate": 2}}
    job.spec = JobSpec.parse(job.spec.to_json() | alone)
    expected = train_alone(job, should_stop=plant_overflow_once())
    skipped = found["rows"]["skipped"]
    assert 0 < sum(skipped) < len(skipped)
    assert skipped == expected.rows["skipped"].tolist()
    assert found["rows"]["loss_scale"] == expected.rows["loss_scale"].tolist()
    assert_close(ranks.arrays["overflow"], expected.arrays)
    verdicts = [event.data["diagnosis"] for event in expected.events if event.type == "overflow"]
    events = [data for kind, _, data in found["events"] if kind == "overflow"]
    assert [event["diagnosis"] for event in events] == verdicts
    assert {event["rank"] for event in events} <= {0, 1}
