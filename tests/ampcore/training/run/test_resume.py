"""A run that was killed and resumed equals one that was not, bit for bit."""

import functools
import itertools
import json
import random
import shutil
import signal
import subprocess

import numpy as np
import pytest

from ampcore.checkpoint import newest, save
from ampcore.training import Trainer
from ampspec.errors import IncompatibleCheckpoint, UnreadableCheckpoint
from ampspec.telemetry import EventType, StepBlock
from ampspec.telemetry.frames import FrameReader, FrameType
from ampspec.telemetry.steps.steps_frame import read_steps
from tests.ampcore.training.run import resume_child
from tests.ampcore.training.run.resume_child import attempt

pytestmark = pytest.mark.xdist_group("python_commands")
DIGITS = {"kind": "digits", "batch_size": 128}
NO_VALIDATION = DIGITS | {"validation_split": 0.0, "batch_size": 144}
"""Tracing an evaluation takes as long as training these few steps."""
STEPS = 26  # two epochs of 11 or 12, and a part of a third

JOBS = {
    "dropout": {
        "model": {"kind": "cnn", "filters": [4], "dense": [8]},
        "data": NO_VALIDATION,
    },
    "batch norm, 16 bit": {
        "model": {
            "kind": "layers",
            "layers": [
                {"layer": "Conv2D", "filters": 4, "kernel_size": 3, "strides": 2},
                {"layer": "BatchNormalization"},
                {"layer": "ReLU"},
                {"layer": "Flatten"},
                {"layer": "Dense", "units": "classes"},
            ],
        },
        "data": NO_VALIDATION | {"shuffle": False},
        "precision": {"policy": "mixed_bfloat16"},
    },
    "float8, skips": {
        "model": {"kind": "cnn", "filters": [4], "dense": [8]},
        "data": NO_VALIDATION,
        "precision": {"policy": "mixed_float8", "float8": {"amax_history": 4}},
        "loss_scale": {"mode": "dynamic", "initial": 2.0**96, "maximum": 2.0**96},
    },
    "two optimizers, two scales": {
        "model": {"kind": "gan", "latent": 8, "generator": [8, 4], "discriminator": [4, 8]},
        "data": NO_VALIDATION,
        "precision": {"policy": "mixed_float16"},
        "loss_scale": {"mode": "dynamic", "initial": 2.0**20, "growth_interval": 5},
        "optimizers": {"discriminator": {"kind": "rmsprop", "learning_rate": 1e-4}},
    },
    "momentum, schedule, averages, accumulation, clipping": {
        "model": {"kind": "mlp", "hidden": [16], "dropout": 0.2},
        "data": DIGITS | {"batch_size": 64},
        "optimizer": {
            "kind": "momentum",
            "schedule": {"kind": "cosine", "warmup_steps": 8},
            "ema": 0.9,
            "clip_norm": 1.0,
        },
        "train": {"accumulate": 2},
    },
    "skips": {
        "model": {"kind": "mlp", "hidden": [16]},
        "data": DIGITS,
        "precision": {"policy": "mixed_float16"},
        "loss_scale": {
            **{"mode": "dynamic", "initial": 2.0**17, "growth_interval": 4, "growth_factor": 4.0},
            **{"hysteresis": 2},
        },
    },
    "calibrated scale": {
        "model": {"kind": "mlp", "hidden": [16]},
        "data": DIGITS,
        "precision": {"policy": "mixed_float16"},
        "loss_scale": {
            **{"mode": "calibrated", "initial": 2.0**18, "calibration_steps": 8},
            **{"audit_interval": 6, "growth_interval": 2},
        },
    },
    "streamed data": {
        "model": {"kind": "mlp", "hidden": [16]},
        "data": {"kind": "synthetic", "shape": [8], "examples": 1600, "batch_size": 128},
    },
    "sparse gradients": {
        "model": {"kind": "embedding", "slots": 2, "nnz": 2, "vocabulary": 64, "dim": 4},
        "data": {
            **{"kind": "synthetic_clicks", "slots": 2, "nnz": 2, "vocabulary": 64},
            **{"examples": 1600, "batch_size": 128},
        },
    },
    "compiled by XLA": {
        "model": {"kind": "mlp", "hidden": [8], "dropout": 0.5},
        "data": DIGITS,
        "runtime": {"engine": "xla_loop"},
    },
}
EARLY = "early stopping"
JOBS[EARLY] = {
    "model": {"kind": "mlp", "hidden": [16]},
    "data": DIGITS | {"batch_size": 718},
    "optimizer": {"kind": "adam", "learning_rate": 0.3, "ema": 0.5},
    "train": {
        "early_stopping": {"patience": 2},
        "keep": "best",
        "best": {"metric": "val_accuracy"},
    },
}
QUICK = ("batch norm, 16 bit", "skips")
"""Two policies are enough on each change."""
SLOW = ("dropout", "batch norm, 16 bit", "two optimizers, two scales", "compiled by XLA")
"""Slow to trace: these are interrupted once, the others twice, and explain no skipped steps."""
SAMPLED = "streamed data"
"""The ranges of this job's layers are sampled in each attempt, which takes as long as it trains."""
WINDOW_BYTES = {"streamed data": 128 * 9 * 4 * 3}
"""Three steps: the last window of an epoch overlaps the one before it."""


class Job:
    """A job in its folder, which may be a copy of another one, and the frames of all attempts."""

    def __init__(self, folder, name, copied=None):
        if copied is None:
            folder.mkdir()
        else:
            shutil.copytree(copied, folder)
        self._log, self._snapshots = folder / "log", {}
        self._folder, self._snapshot_folder = folder, folder.with_name(f"{folder.name}-snapshots")
        spec = {"runtime": {"engine": "graph"}} | JOBS[name]
        spec["train"] = JOBS[name].get("train", {}) | {"steps": STEPS, "checkpoint_every_s": 1e-9}
        spec["telemetry"] = {"ranges": {"enabled": name == SAMPLED}}
        self._request = {
            "spec": spec,
            "output": str(folder / "output"),
            "log": str(self._log),
            "windows": WINDOW_BYTES.get(name),
            "explain": name not in SLOW,
        }

    def train(self, sizes):
        """Train until the end; the folder is copied whenever something was written."""
        attempt(self.request(sizes), self._copy)
        return self

    def request(self, sizes, kill=None):
        """What an attempt needs to know."""
        return self._request | {"sizes": sizes, "kill": kill}

    def _copy(self, what, step):
        copy = self._snapshot_folder / f"{what}-{step}"
        shutil.copytree(self._folder, copy, dirs_exist_ok=True)
        self._snapshots[what, step] = copy

    def killed_at(self, what, step):
        """The folder as a kill would leave it right after it was written: this step, or later."""
        steps = [written for kind, written in self._snapshots if kind == what and written >= step]
        return self._snapshots[what, min(steps)]

    @property
    def frames(self):
        return list(FrameReader().feed(self._log.read_bytes()))

    def events(self, kind):
        emitted = [frame.header for frame in self.frames if frame.type is FrameType.EVENT]
        return [event for event in emitted if event["event"] == kind]

    @property
    def summary(self):
        last = self.frames[-1]
        assert last.type is FrameType.SUCCEEDED
        return last.header["summary"]

    @property
    def steps(self):
        """Every step once, by the newest attempt that reached it; without the time it took."""
        rows = []
        for frame in self.frames:
            if frame.type is FrameType.STEPS:
                block = read_steps(frame)
                assert block.first_step <= len(rows), "steps are missing"
                columns = [block[name].tolist() for name in block.names if name != "step_time_s"]
                rows[block.first_step :] = list(zip(*columns, strict=True))
        return np.array(rows)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The jobs, each run once without interruption."""

    @functools.cache
    def run(name):
        return Job(tmp_path_factory.mktemp("whole") / "job", name).train(sizes=0)

    return run


def assert_equal(interrupted, uninterrupted):
    assert len(interrupted.steps) == uninterrupted.summary["steps"]
    assert interrupted.steps.tobytes() == uninterrupted.steps.tobytes()
    fields = ("steps", "skipped", "weights_digest", "final_loss", "final_loss_scale", "val_loss")
    fields += ("best", "stopped_early")
    assert [interrupted.summary[field] for field in fields] == [
        uninterrupted.summary[field] for field in fields
    ]


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(job, marks=pytest.mark.slow) for job in JOBS if job not in (EARLY, *QUICK)),
    ],
)
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(uninterrupted, tmp_path, name):
    whole, rng = uninterrupted(name), random.Random(name)
    kill_steps = sorted(rng.sample(range(2, STEPS - 1), 2))
    killed = whole.killed_at("checkpoint", kill_steps[0])
    resumed = Job(tmp_path / "once", name, killed).train(rng.random())
    assert_equal(resumed, whole)
    if name not in SLOW:
        killed = resumed.killed_at("block", kill_steps[1])
        resumed = Job(tmp_path / "twice", name, killed).train(rng.random())
        assert_equal(resumed, whole)
    steps = [event["data"]["steps"] for event in resumed.events(EventType.RESUMED)]
    assert len(steps) == (1 if name in SLOW else 2)
    assert min(steps) >= kill_steps[0]


@pytest.mark.parametrize(("name", "what"), [("dropout", "checkpoint"), ("skips", "block")])
def test_a_process_that_resumes_a_killed_one_equals_an_uninterrupted_one(
    *, python_commands, uninterrupted, tmp_path, name, what
):
    interrupted = Job(tmp_path / "job", name)

    def attempt_in_a_process(**request):
        document = json.dumps(interrupted.request(**request))
        command = [python_commands / "python", resume_child.__file__, document]
        return subprocess.run(command, check=False).returncode

    assert attempt_in_a_process(sizes=1, kill=[what, 14]) == 128 + signal.SIGKILL
    assert attempt_in_a_process(sizes=2) == 0
    [resumed] = interrupted.events(EventType.RESUMED)
    assert 0 < resumed["data"]["steps"] < STEPS
    assert_equal(interrupted, uninterrupted(name))


@pytest.mark.parametrize(
    ("what", "kill"),
    [("checkpoint", "before"), ("block", "at"), ("checkpoint", "at"), ("block", "after")],
)
def test_a_run_killed_around_its_best_epoch_ends_early_with_the_same_weights(
    uninterrupted, tmp_path, what, kill
):
    whole = uninterrupted(EARLY)
    best, end = whole.summary["best"]["steps"], whole.summary["steps"]
    assert 0 < best < end < STEPS, "the best epoch must lie inside the run, and its end before all"
    step = {"before": best - 1, "at": best, "after": best + 1}[kill]
    resumed = Job(tmp_path / "job", EARLY, whole.killed_at(what, step)).train(sizes=4)
    assert_equal(resumed, whole)
    [stopped] = resumed.events(EventType.STOPPED_EARLY)
    assert stopped["step"] == end - 1


def test_a_run_killed_after_its_early_end_does_not_train_further(uninterrupted, tmp_path):
    whole = uninterrupted(EARLY)
    killed = whole.killed_at("checkpoint", whole.summary["steps"])
    assert_equal(Job(tmp_path / "job", EARLY, killed).train(sizes=4), whole)


@pytest.mark.quick  # of the promises: it trains the runs that the others are compared with
@pytest.mark.parametrize("name", ["two optimizers, two scales", "skips", "calibrated scale"])
def test_the_uninterrupted_runs_skip_some_steps(uninterrupted, name):
    assert 2 < uninterrupted(name).summary["skipped"] < STEPS // 2


# ---- Changes of the job between two runs


FLOAT16 = {
    "precision": {"policy": "mixed_float16"},
    "loss_scale": {"mode": "dynamic", "initial": 2.0**24},
}


class RecordedRun:
    """A run with its blocks and events; it may be stopped after some blocks."""

    def __init__(self, spec, folder, *, resume=True, blocks=None):
        self.blocks, self.events = [], []
        trainer = Trainer(spec, output_dir=folder, resume=resume and folder is not None)
        left = itertools.repeat(1) if blocks is None else itertools.count(-blocks)
        self.result = trainer.run(self.blocks.append, self.events.append, lambda: next(left) == 0)

    @property
    def steps(self):
        return StepBlock.concat(self.blocks)

    @property
    def digest(self):
        return self.result.weights_digest

    def of(self, kind):
        return [event for event in self.events if event.type is kind]


@pytest.fixture
def run(job, tmp_path):
    """Makes runs of a job in one folder; they save after every block."""

    def make(resume=True, blocks=None, **parts):
        train = {"steps": 12, "checkpoint_every_s": 1e-9} | parts.pop("train", {})
        parts = {"runtime": {"engine": "graph"}} | parts
        spec = job(train=train, **parts)
        return RecordedRun(spec, tmp_path / "job", resume=resume, blocks=blocks)

    return make


@pytest.fixture
def folder(tmp_path):
    """The checkpoints of `run`."""
    return tmp_path / "job" / "checkpoints"


def saved_arrays(folder):
    return newest(folder).checkpoint.arrays


@pytest.fixture(scope="module")
def whole_digest(job):
    """The digest of the weights after twelve steps of an uninterrupted run."""
    return RecordedRun(job(train={"steps": 12}, runtime={"engine": "graph"}), None).digest


def test_a_run_without_resume_starts_at_step_0_and_can_be_resumed_later(run, whole_digest):
    run(train={"seed": 1, "steps": 2})
    restarted = run(resume=False, blocks=1)
    assert restarted.steps.first_step == 0
    assert run().digest == whole_digest


def test_a_finished_run_can_be_extended_and_keeps_only_its_newest_checkpoints(
    run, folder, whole_digest
):
    run(train={"steps": 4})
    assert run().digest == whole_digest
    assert len(list(folder.iterdir())) == 2


# ---- State that a resumed run keeps


def test_a_resumed_run_does_not_overflow_again(run):
    first = run(**FLOAT16, train={"steps": 16})
    assert first.steps["skipped"].any()
    resumed = run(**FLOAT16, train={"steps": 20})
    assert resumed.steps["loss_scale"][0] == first.result.final_loss_scale
    assert resumed.steps["loss_scale"][0] < 2.0**24
    assert not resumed.steps["skipped"].any()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("mixed_float16", "float32"),
        ("float32", "mixed_float16"),
        ("mixed_bfloat16", "mixed_float16"),
    ],
)
def test_another_policy_keeps_the_state_of_the_optimizer(run, folder, before, now):
    steps = {"steps": 4}
    run(precision={"policy": before}, train=steps)
    arrays = saved_arrays(folder)
    run(precision={"policy": now}, train=steps)
    after = saved_arrays(folder)
    kept = [name for name in arrays if "/loss_scale/" not in name]
    assert sum("/optimizer/" in name for name in kept) > 8
    for name in kept:
        assert after[name].tobytes() == arrays[name].tobytes(), name


def test_sixteen_bit_weights_become_float32_weights_of_the_same_value(run, folder):
    run(precision={"policy": "bfloat16"}, train={"steps": 4})
    arrays = saved_arrays(folder)
    run(precision={"policy": "float32"}, train={"steps": 4})
    after = saved_arrays(folder)
    narrow = [name for name, array in arrays.items() if array.dtype.name == "bfloat16"]
    assert narrow
    for name in narrow:
        assert after[name].dtype == np.float32
        np.testing.assert_array_equal(after[name], arrays[name].astype(np.float32))


def test_a_changed_loss_scale_starts_with_its_own_value(run):
    run(blocks=3, **FLOAT16)
    fixed = {"mode": "fixed", "scale": 8.0}
    assert run(**FLOAT16 | {"loss_scale": fixed}).steps["loss_scale"][0] == 8.0


def test_another_model_is_refused_with_both_values(run):
    run(blocks=1)
    with pytest.raises(IncompatibleCheckpoint, match=r"model\.hidden was \[16\] and is \[8\]"):
        run(model={"kind": "mlp", "hidden": [8]})


def test_arrays_of_another_state_are_refused_by_name(run, folder):
    run(blocks=1)
    found = newest(folder).checkpoint
    name = next(name for name in found.arrays if "/optimizer/" in name)
    del found.arrays[name]
    save(folder, found)
    with pytest.raises(IncompatibleCheckpoint, match=f"{name} is missing"):
        run()


# ---- Damaged checkpoints


def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(run, folder, whole_digest):
    run(blocks=3)
    file = newest(folder).file
    file.write_bytes(file.read_bytes()[:-1])
    resumed = run()
    (warning,) = resumed.of(EventType.WARNING)
    assert warning.data["code"] == "unreadable_checkpoint"
    assert file.name in warning.data["message"]
    assert resumed.digest == whole_digest


def test_a_run_fails_to_resume_if_no_checkpoint_can_be_read(run, folder):
    run(blocks=2)
    for file in folder.iterdir():
        file.write_bytes(b"")
    with pytest.raises(UnreadableCheckpoint):
        run()
