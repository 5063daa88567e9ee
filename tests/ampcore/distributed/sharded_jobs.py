"""The jobs with a sharded table that `test_sharded_ranks.py` trains on two ranks and alone."""

import numpy as np

from ampcore.data.dataset import Dataset
from ampcore.training.jobs.job import SpecJob
from ampspec.jobs import JobSpec
from tests.ampcore.distributed.rank_jobs import NO_RANGES

SLOTS, NNZ, DIM, VOCABULARY = 4, 2, 4, 51
CLICKS = {
    "kind": "synthetic_clicks",
    "batch_size": 32,
    "examples": 640,
    "validation_split": 0.1,
    "slots": SLOTS,
    "nnz": NNZ,
    "vocabulary": VOCABULARY,
}
HIGH_SCALE = {"mode": "dynamic", "initial": 2.0**22, "growth_interval": 4}
FLOAT16 = {"precision": {"policy": "mixed_float16"}, "loss_scale": HIGH_SCALE}
AVERAGED = {"optimizer": {"kind": "adam", "learning_rate": 0.05, "ema": 0.9, "clip_norm": 0.02}}


def job(placement="sharded", **parts):
    """The document of a job on two ranks, which may also run on one."""
    model = {
        "kind": "embedding",
        "slots": SLOTS,
        "nnz": NNZ,
        "vocabulary": VOCABULARY,
        "dim": DIM,
        "hidden": [8],
        "placement": placement,
    }
    runtime = {"devices": 2, "engine": "graph", "elastic": {"min": 1, "max": 2}}
    runtime |= parts.pop("runtime", {})
    train = {"steps": 24, "seed": 3} | parts.pop("train", {})
    common = {"model": model, "data": CLICKS, "runtime": runtime, "train": train}
    return common | {"telemetry": NO_RANGES} | parts


JOBS = {
    "float32": job(telemetry={}),  # rank 0 samples the ranges of its layers
    "replicated": job("replicated"),
    "float16": job(**FLOAT16, **AVERAGED),
    "float16_replicated": job("replicated", **FLOAT16, **AVERAGED),
    "accumulated": job(train={"accumulate": 2, "steps": 8}, **FLOAT16),
    "bfloat16": job(
        precision={"policy": "mixed_bfloat16"}, runtime={"profile": {"start": 4, "steps": 2}}
    ),
    "best": job(train={"steps": None, "epochs": 3, "keep": "both"}),
}
OVERFLOW = job(
    precision={"policy": "mixed_float16"},
    loss_scale={"mode": "dynamic", "initial": 2.0**8, "growth_interval": 1000},
    optimizer={"kind": "sgd", "learning_rate": 1e-6},
    train={"steps": 8},
)
OVERFLOW["model"] |= {"hidden": []}


class OddFirstKeys(SpecJob):
    """A job whose first key is odd in every example, so that rank 1 owns all of its rows."""

    def load_data(self):
        random = np.random.default_rng(0)
        keys = random.integers(0, VOCABULARY - 1, (512, SLOTS, NNZ))
        keys[:, 0, 0] |= 1
        return Dataset.split(keys, random.integers(0, 2, 512), 2, 0.0, VOCABULARY)


def overflow_job():
    """The gradients by the rows of its first keys overflow until the loss scale is small."""
    return OddFirstKeys(JobSpec.parse(OVERFLOW))


def plant_overflow_once():
    """Lets gradients by the first key's rows overflow in float16, and no others.

    Returns:
        What decides whether a trainer stops, which is called before its first step.
    """
    planted = []

    def plant(trainer):
        if planted:
            return False
        planted.append(True)
        layer = trainer._current_run.runner.networks[0].model.get_layer("predictions")
        values = layer.kernel.numpy()
        values[:DIM] = 60_000.0
        layer.kernel.assign(values)
        return False

    return plant
