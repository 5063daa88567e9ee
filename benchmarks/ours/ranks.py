"""A job of ampcore as one of several ranks, or alone: `ranks.py MODEL [EXCHANGE [BUCKET_BYTES]]`.

EXCHANGE is the dtype in which gradients travel, or `apart`: then each rank trains alone. Rank 0
prints the median time of a step without the first ones, its spread, and how many examples all ranks
that train together take in a second.
"""

import json
import os
import statistics
import sys
from typing import Any

from compare.problems import CLASSES, LEARNING_RATE, Cnn

from ampcore import JobSpec, Trainer
from ampcore.distributed import cluster_from_environment
from ampcore.distributed.buckets import DEFAULT_BUCKET_BYTES
from ampcore.distributed.environment import CLUSTER
from ampspec.telemetry import StepBlock

WARMUP_STEPS = 4
"""Steps that are left out: the first block, of one step, contains tracing and compilation."""
IQR = 1.349
"""The interquartile range of the normal distribution, in standard deviations."""
APART = "apart"
LARGE_BATCH = 1024
JOBS: dict[str, tuple[dict[str, Any], list[int], int, int]] = {
    "deep_mlp": ({"kind": "mlp", "hidden": [1024] * 6}, [784], LARGE_BATCH, 30),
    "cnn": ({"kind": "cnn", "dropout": 0.25, "dense_dropout": 0.5}, list(Cnn.INPUT), Cnn.BATCH, 60),
    "mlp": ({"kind": "mlp", "hidden": [1024, 1024]}, [784], Cnn.BATCH, 100),
    "resnet20": ({"kind": "resnet", "depth": 20}, [32, 32, 3], Cnn.BATCH, 20),
}
"""The model, the shape of its inputs, the batch of a rank, and the number of steps."""


def main(model: str, exchange: str = "float32", bucket_bytes: str | None = None) -> None:
    """Train, and print."""
    if exchange == APART:
        os.environ.pop(CLUSTER, None)
    cluster = cluster_from_environment()
    gradient_dtype = "float32" if exchange == APART else exchange
    network, shape, batch, steps = JOBS[model]
    ranks = 1 if cluster is None else cluster.size
    examples = {"shape": shape, "classes": CLASSES, "examples": 8 * batch * ranks}
    spec = JobSpec.parse(
        {
            "model": network,
            "data": {
                **{"kind": "synthetic", "batch_size": batch, "validation_split": 0.0},
                **examples,
            },
            "optimizer": {"kind": "adam", "learning_rate": LEARNING_RATE},
            "loss_scale": {"mode": "dynamic", "initial": 1024.0},
            "train": {"steps": steps, "checkpoint_every_s": None},
            "runtime": {
                **{"engine": "graph", "device": "cpu", "devices": ranks},
                "exchange": {
                    "gradient_dtype": gradient_dtype,
                    "bucket_bytes": int(bucket_bytes or DEFAULT_BUCKET_BYTES),
                },
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
        low_s, step_s, high_s = statistics.quantiles(found, n=4)
        spread = (high_s - low_s) / IQR / step_s
        answer = {
            "examples_per_s": ranks * batch / step_s,
            "step_ms": 1e3 * step_s,
            "spread": spread,
        }
        summary = result.to_json()
        more = {"parameters": summary["parameters"], "ranks": summary.get("ranks")}
        print(json.dumps({**answer, **more}))


if __name__ == "__main__":
    main(*sys.argv[1:])
