"""Memory of each rank with a replicated and with a sharded embedding table: one JSON line.

A table of 4,000,000 × 16 with the moments of Adam has 768 MB. `memory_mb` has, by case and rank,
the highest resident memory of the process beyond that of the same program with a table of 1,000
rows. `sharded_saved` also writes a checkpoint and the model, which rank 0 builds with the whole
table. `step_ms` is the median of the blocks. `exchange_kb` compares what a rank sends to the other
one in a step with what two other ways of exchanging rows would send.
"""

import argparse
import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from compare import report

from ampcore.distributed.launcher import Launch, launch_ranks

ROWS: Final = 4_000_000
DIM: Final = 16
BATCH: Final = 1024
SLOTS, NNZ = 10, 5
CASES: Final[dict[str, tuple[int, str, int, bool]]] = {
    "one_rank": (1, "replicated", ROWS, False),
    "replicated": (2, "replicated", ROWS, False),
    "sharded": (2, "sharded", ROWS, False),
    "sharded_saved": (2, "sharded", ROWS, True),
}
SMALL: Final = {1: (1, "replicated", 1000, False), 2: (2, "replicated", 1000, False)}
TIMEOUT_S: Final = 120.0
FLOAT32, FLOAT16 = 4, 2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank-of", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank_of:
        _train(*arguments.rank_of)
        return
    before = {ranks: _measure(case)["memory_mb"] for ranks, case in SMALL.items()}
    found = {name: _measure(case) for name, case in CASES.items()}
    memory = {
        name: [
            round(own - other)
            for own, other in zip(one["memory_mb"], before[CASES[name][0]], strict=True)
        ]
        for name, one in found.items()
    }
    report(
        "sharded_tables",
        memory_mb=memory,
        variables_mb={name: one["variables_mb"] for name, one in found.items()},
        process_mb=before,
        step_ms={name: round(one["step_ms"], 2) for name, one in found.items()},
        exchange_kb={str(rows): exchanged_kb(rows, 8) for rows in (1024, 100_000, ROWS)},
    )


def exchanged_kb(rows: int, dim: int) -> dict[str, float]:
    """What a rank of two sends to the other one in a step, in float16, by way of exchange."""
    keys = np.random.default_rng(0).integers(0, rows // SLOTS, (BATCH, SLOTS, NNZ))
    keys += np.arange(SLOTS)[:, np.newaxis] * (rows // SLOTS)
    distinct, half = len(np.unique(keys)) / 2, keys.size / 2
    vector, sums = dim * FLOAT16, dim * FLOAT32
    return {
        "distinct_keys": round(distinct * (FLOAT32 + vector + sums) / 1000, 1),
        "every_occurrence": round(half * (FLOAT32 + 2 * vector) / 1000, 1),
        "keys_to_all": round(keys.size * (FLOAT32 + 2 * vector) / 1000, 1),
    }


def _measure(case: tuple[int, str, int, bool]) -> dict[str, Any]:
    ranks, placement, rows, saves = case
    with tempfile.TemporaryDirectory() as folder:
        settings = [folder, placement, str(rows), str(int(saves))]
        command = [sys.executable, __file__, "--rank-of", *settings]
        code = launch_ranks(Launch(command, ranks, TIMEOUT_S))
        if code:
            raise SystemExit(code)
        found = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]
    return {
        "memory_mb": [one["memory_mb"] for one in found],
        "variables_mb": [round(one["variables_mb"]) for one in found],
        "step_ms": found[0]["step_ms"],
    }


def _train(folder: str, placement: str, rows: str, saves: str) -> None:
    """Train on this rank, and write what it has needed."""
    from ampcore import Trainer
    from ampcore.distributed import cluster_from_environment
    from ampcore.spec import JobSpec

    cluster = cluster_from_environment()
    if cluster is None:
        raise SystemExit("started without launch")
    model = {"kind": "embedding", "vocabulary": int(rows), "dim": DIM, "placement": placement}
    data = {
        "kind": "synthetic_clicks",
        "vocabulary": int(rows),
        "examples": 20_000,
        "batch_size": BATCH,
    }
    spec = JobSpec.parse(
        {
            "model": model,
            "data": data,
            "train": {"steps": 40},
            "runtime": {"devices": cluster.size, "engine": "graph"},
        }
    )
    blocks: list[Any] = []
    output = Path(folder) / "job" if saves == "1" else None
    trainer = Trainer(spec, output_dir=output, cluster=cluster)
    trainer.run(blocks.append)
    session = trainer._current_run.session if trainer._current_run else None
    arrays = session.expected_arrays().values() if session else ()
    variables = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in arrays)
    times = [block.stats.duration_s / len(block) for block in blocks[1:]]
    found = {
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "variables_mb": variables / 1e6,
        "step_ms": float(np.median(times)) * 1000 if times else None,
    }
    (Path(folder) / f"{cluster.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
