"""A job of ampcore as one of several ranks, or alone: `ranks.py MODEL [GRADIENT_DTYPE]`.

Rank 0 prints how many examples all ranks train on per second: the median without the first steps.
"""

import json
import statistics
import sys
from typing import Any

from compare.problems import CLASSES, LEARNING_RATE, Cnn

from ampcore import JobSpec, Trainer
from ampcore.distributed import cluster_from_environment
from ampcore.telemetry import StepBlock

WARMUP_STEPS = 4
"""Steps that are left out: the first block, of one step, contains tracing and compilation."""
JOBS: dict[str, tuple[dict[str, Any], list[int], int]] = {
    "cnn": ({"kind": "cnn", "dropout": 0.25, "dense_dropout": 0.5}, list(Cnn.INPUT), 60),
    "resnet20": ({"kind": "resnet", "depth": 20}, [32, 32, 3], 20),
}
"""The model, the shape of its inputs, and the number of steps."""


def main(model: str, gradient_dtype: str = "float32") -> None:
    """Train, and print."""
    cluster = cluster_from_environment()
    network, shape, steps = JOBS[model]
    ranks = 1 if cluster is None else cluster.size
    examples = {"shape": shape, "classes": CLASSES, "examples": 8 * Cnn.BATCH * ranks}
    spec = JobSpec.parse(
        {
            "model": network,
            "data": {
                **{"kind": "synthetic", "batch_size": Cnn.BATCH, "validation_split": 0.0},
                **examples,
            },
            "optimizer": {"kind": "adam", "learning_rate": LEARNING_RATE},
            "loss_scale": {"mode": "dynamic", "initial": 1024.0},
            "train": {"steps": steps, "checkpoint_every_s": None},
            "runtime": {
                **{"engine": "graph", "device": "cpu", "devices": ranks},
                "exchange": {"gradient_dtype": gradient_dtype},
            },
            "telemetry": {"ranges": {"enabled": False}},
        }
    )
    found: list[float] = []

    def observe(block: StepBlock) -> None:
        if block.first_step >= WARMUP_STEPS:
            found.extend(block["step_time_s"].tolist())

    result = Trainer(spec, cluster=cluster).run(observe)
    if cluster is None or cluster.rank == 0:
        per_s = ranks * Cnn.BATCH / statistics.median(found)
        print(json.dumps({"examples_per_s": per_s, "ranks": result.to_json().get("ranks")}))


if __name__ == "__main__":
    main(*sys.argv[1:])
