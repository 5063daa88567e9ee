"""Checkpoints of other versions: earlier ones with fewer counters, later ones with more."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ampcore import __version__
from ampcore.checkpoint import load, newest, save
from ampcore.checkpoint.file_format import DIGEST_SIZE
from ampcore.training.run.counters import RunCounters
from ampspec.errors import IncompatibleCheckpoint, UnreadableCheckpoint
from ampspec.jobs import Reason
from ampspec.telemetry import EventType

MADE_BY_0_5 = Path(__file__).parents[2] / "checkpoint/data/version-0.5-step-9.safetensors"
STEPS, DONE = 18, 9

JOB = {
    "name": "made by 0.5",
    "model": {"kind": "mlp", "hidden": [4]},
    "data": {"kind": "digits", "batch_size": 256, "validation_split": 0.0},
    "precision": {"policy": "mixed_float16"},
    # Far from the boundary on every processor: each sixth good step is
    # followed by one that overflows.
    "loss_scale": {
        **{"mode": "dynamic", "initial": 2.0**24, "growth_interval": 6},
        **{"growth_factor": 2.0**8, "backoff_factor": 2.0**-8},
    },
    "optimizer": {"kind": "momentum", "learning_rate": 0.1},
    "guard": {"on_exceeded": "rollback"},
    "runtime": {"engine": "graph"},
    "train": {"steps": STEPS},
}
LOSSES_OF_0_5 = [2.28241, 2.27278, 2.25778, 2.26009, 2.21349, 2.22173, 2.22849, 2.16135, 2.14807]
"""Of the steps from DONE on, in a run of version 0.5 that was not stopped."""
SKIPPED = [0, 7, 14]


@pytest.fixture
def folder(tmp_path):
    """The checkpoints of a job that was stopped in version 0.5."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    shutil.copy(MADE_BY_0_5, folder / f"checkpoint-000001-step-{DONE}.safetensors")
    return folder


def change(folder, **manifest):
    """Write the newest checkpoint once more, with fields of the manifest replaced."""
    found = newest(folder).checkpoint
    save(folder, replace(found, manifest=found.manifest.model_copy(update=manifest)))


def test_the_counters_of_version_0_5_are_read_under_their_names(folder):
    manifest = newest(folder).checkpoint.manifest
    counters = manifest.counters | {"guard_row": 2}
    counters.pop("nonfinite_in_a_row", None)
    found = RunCounters.from_manifest(manifest.model_copy(update={"counters": counters}))
    assert found.nonfinite_in_a_row == 2
    assert RunCounters(nonfinite_in_a_row=3).to_json()["nonfinite_in_a_row"] == 3


def header(file):
    """The header of a file, and the bytes after it."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write(file, document, rest):
    """Write a file with this header, and its digest."""
    text = json.dumps(document).encode()
    data = len(text).to_bytes(8, "little") + text + rest[:-DIGEST_SIZE]
    file.write_bytes(data + hashlib.sha256(data).digest())


@pytest.fixture(scope="module")
def whole(run_job):
    """The run of JOB by this version."""
    return run_job(**JOB)


def test_a_checkpoint_of_version_0_5_resumes_to_the_same_result(run_job, whole, folder):
    rest = run_job(output_dir=folder.parent, resume=True, **JOB)
    assert not rest.of(EventType.WARNING)
    assert rest.steps.first_step == DONE
    assert np.flatnonzero(whole.steps["skipped"]).tolist() == SKIPPED
    np.testing.assert_array_equal(rest.steps["skipped"], whole.steps["skipped"][DONE:])
    np.testing.assert_array_equal(rest.steps["loss_scale"], whole.steps["loss_scale"][DONE:])
    # Another processor may add up in another order.
    np.testing.assert_allclose(rest.steps["loss"], whole.steps["loss"][DONE:], rtol=0.02)
    np.testing.assert_allclose(rest.steps["loss"], LOSSES_OF_0_5, rtol=0.02)
    assert (rest.result.steps, rest.result.skipped) == (STEPS, len(SKIPPED))


def test_a_counter_of_a_later_version_is_ignored_and_not_saved_again(run_job, whole, folder):
    counters = dict(newest(folder).checkpoint.manifest.counters)
    counters["totals"] |= {"watts": 7.0, "epoch": counters["totals"]["epoch"] | {"watts": 7.0}}
    counters["diagnosis"]["verdicts"] |= {"watts": 7.0}
    counters["diagnosis"]["table"]["samples"] |= {"watts": 7.0}
    counters["diagnosis"]["health"]["model"] |= {"watts": 7.0}
    change(folder, counters=counters | {"watts": 7.0})
    run = run_job(output_dir=folder.parent, resume=True, **JOB)
    assert (run.result.steps, run.result.skipped) == (STEPS, whole.result.skipped)
    assert "watts" not in json.dumps(newest(folder).checkpoint.manifest.counters)


@pytest.mark.parametrize("left", [(), ("totals", "diagnosis")])
def test_counters_that_a_checkpoint_lacks_start_at_zero(run_job, folder, left):
    """As a later version finds the checkpoints of this one."""
    counters = newest(folder).checkpoint.manifest.counters
    change(folder, counters={name: {} for name in left})
    run = run_job(output_dir=folder.parent, resume=True, **JOB)
    assert "totals" in counters
    assert run.steps.first_step == DONE
    # The skips before the checkpoint are unknown; there is one after it.
    assert (run.result.steps, run.result.skipped) == (STEPS, 1)


@pytest.mark.parametrize(
    ("counters", "field"),
    [
        ({"totals": {"skipped": "many"}}, "counters.totals.skipped"),
        ({"guard_row": -1}, "counters.guard_row"),
        ({"totals": [1]}, "counters.totals"),
    ],
)
def test_an_invalid_counter_is_refused_with_both_versions(run_job, folder, counters, field):
    change(folder, counters=counters, versions={"ampcore": "9.8.7"})
    with pytest.raises(IncompatibleCheckpoint, match=field) as refused:
        run_job(output_dir=folder.parent, resume=True, **JOB)
    assert f"made by ampcore 9.8.7; this is ampcore {__version__}" in str(refused.value)
    assert refused.value.reason is Reason.INVALID_CHECKPOINT


def test_a_field_of_a_later_manifest_is_ignored(folder):
    [file] = folder.iterdir()
    document, rest = header(file)
    metadata = document["__metadata__"]
    manifest = json.loads(metadata["manifest"]) | {"host": "somewhere"}
    metadata["manifest"] = json.dumps(manifest)
    write(file, document, rest)
    assert load(file).manifest.step == DONE


def test_a_format_that_is_too_new_is_refused_with_both_versions(run_job, folder):
    [file] = folder.iterdir()
    document, rest = header(file)
    metadata = document["__metadata__"]
    manifest = json.loads(metadata["manifest"])
    manifest["versions"]["ampcore"] = "9.8.7"
    metadata |= {"format": "ampcore-checkpoint-9", "manifest": json.dumps(manifest)}
    write(file, document, rest)
    with pytest.raises(UnreadableCheckpoint) as refused:
        run_job(output_dir=folder.parent, resume=True, **JOB)
    assert f"expected a format that ampcore {__version__} reads" in str(refused.value)
    assert "received ampcore-checkpoint-9, written by ampcore 9.8.7" in str(refused.value)
    assert refused.value.reason is Reason.INVALID_CHECKPOINT


def test_a_checkpoint_contains_the_good_state(folder):
    found = newest(folder).checkpoint
    good = {name: array + array.dtype.type(1) for name, array in found.arrays.items()}
    file = save(folder, replace(found, good_arrays=good))
    again = load(file)
    assert again.arrays.keys() == again.good_arrays.keys() == found.arrays.keys()
    for name, array in good.items():
        np.testing.assert_array_equal(again.good_arrays[name], array)
        np.testing.assert_array_equal(again.arrays[name], found.arrays[name])
    assert load(MADE_BY_0_5).good_arrays is None
