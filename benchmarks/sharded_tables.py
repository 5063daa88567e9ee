"""Memory of each rank with a replicated and with a sharded embedding table: one JSON line.

A table of 4,000,000 × 16 with the moments of Adam has 768 MB. `memory_mb` has, by case and rank,
the highest resident memory of the process beyond that of the same program with a table of 1,000
rows. `sharded_saved` also evaluates, and writes a checkpoint and the model. `step_ms` is the median
of the blocks. `exchange_kb` compares what a rank sends to the other one in a step with what two
other ways of exchanging rows would send.

`limited` has, by number of ranks, a run that ends as soon as a process has more anonymous memory
than a limit below the size of the variables, beyond what it has once it is connected: it trains, is
stopped at a checkpoint, resumes, evaluates and saves. The figures are the peaks of each rank until
it was stopped and after it has resumed; null for a run that has exceeded the limit.
"""

import argparse
import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from compare import report

from ampcore.distributed.launcher import Launch, launch_ranks

ROWS: Final = 4_000_000
DIM: Final = 16
BATCH: Final = 1024
SLOTS, NNZ = 10, 5
STEPS: Final = 40
LIMIT_MB: Final = 690
"""Nine tenths of the variables of one process."""
ROOT: Final = Path(__file__).parents[1]


class Case(NamedTuple):
    """A number of ranks, and the settings of each one."""

    ranks: int
    placement: str
    rows: int = ROWS
    saves: bool = False
    limit_mb: int = 0
    """0: none."""
    until: int = STEPS
    """The step after which it is stopped."""


CASES: Final = {
    "one_rank": Case(1, "replicated"),
    "replicated": Case(2, "replicated"),
    "sharded": Case(2, "sharded"),
    "sharded_saved": Case(2, "sharded", saves=True),
}
SMALL: Final = {ranks: Case(ranks, "replicated", rows=1000) for ranks in (1, 2)}
TIMEOUT_S: Final = 120.0
FLOAT32, FLOAT16 = 4, 2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank-of", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank_of:
        folder, case = arguments.rank_of
        _train(Path(folder), Case(*json.loads(case)))
        return
    before = {ranks: _measure(case)["memory_mb"] for ranks, case in SMALL.items()}
    found = {name: _measure(case) for name, case in CASES.items()}
    memory = {
        name: [
            round(own - other)
            for own, other in zip(one["memory_mb"], before[CASES[name].ranks], strict=True)
        ]
        for name, one in found.items()
    }
    report(
        "sharded_tables",
        memory_mb=memory,
        variables_mb={name: one["variables_mb"] for name, one in found.items()},
        process_mb=before,
        step_ms={name: round(one["step_ms"], 2) for name, one in found.items()},
        limit_mb=LIMIT_MB,
        limited={str(ranks): _limited(ranks) for ranks in (1, 2)},
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


def _measure(case: Case) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        found = _run(Path(folder), case)
    if found is None:
        raise SystemExit("a rank has failed")
    return {
        "memory_mb": [one["memory_mb"] for one in found],
        "variables_mb": [round(one["variables_mb"]) for one in found],
        "step_ms": found[0]["step_ms"],
    }


def _limited(ranks: int) -> list[list[int]] | None:
    """The peaks of each rank until it was stopped, and after it has resumed."""
    case = Case(ranks, "sharded", saves=True, limit_mb=LIMIT_MB)
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for until in (STEPS // 2, STEPS + 1):
            found = _run(Path(folder), case._replace(until=until))
            if found is None:
                return None
            peaks.append([round(one["peak_mb"]) for one in found])
    return peaks


def _run(folder: Path, case: Case) -> list[dict[str, Any]] | None:
    """What each rank has written; None if one has failed."""
    command = [sys.executable, __file__, "--rank-of", str(folder), json.dumps(case)]
    environ = {"PYTHONPATH": str(ROOT)}
    if launch_ranks(Launch(command, case.ranks, TIMEOUT_S, environ=environ)):
        return None
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(case.ranks)]


def _train(folder: Path, case: Case) -> None:
    """Train on this rank, and write what it has needed."""
    from ampcore import Trainer, distributed
    from ampcore.distributed import Cluster, Communicator
    from tests.memory_limit import MemoryLimit

    cluster = distributed.cluster_from_environment()
    if cluster is None:
        raise SystemExit("started without launch")
    limits: list[MemoryLimit] = []
    connect = distributed.connect

    def connect_and_limit(cluster: Cluster, bucket_bytes: int | None = None) -> Communicator:
        replicas = connect(cluster, bucket_bytes)
        if case.limit_mb:
            limits.append(MemoryLimit(case.limit_mb * 10**6, folder / "exceeded"))
        return replicas

    distributed.connect = connect_and_limit
    blocks: list[Any] = []
    output = folder / "job" if case.saves else None
    trainer = Trainer(_spec(case), output_dir=output, cluster=cluster, resume=True)

    def should_stop() -> bool:
        run = trainer._current_run
        return case.until < STEPS and run is not None and run.totals.steps >= case.until

    trainer.run(blocks.append, should_stop=should_stop)
    run = trainer._current_run
    arrays = run.runner.state.expected_arrays().values() if run else ()
    variables = sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in arrays)
    times = [block.stats.duration_s / len(block) for block in blocks[1:]]
    found = {
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "peak_mb": limits[0].peak_bytes / 1e6 if limits else None,
        "variables_mb": variables / 1e6,
        "step_ms": float(np.median(times)) * 1000 if times else None,
    }
    (folder / f"{cluster.rank}.json").write_text(json.dumps(found))


def _spec(case: Case) -> Any:
    """The job of a case."""
    from ampspec.jobs import JobSpec

    data: dict[str, Any] = {"vocabulary": case.rows, "examples": 20_000, "batch_size": BATCH}
    data["validation_split"] = 0.1 if case.saves else 0.0
    model = {"kind": "embedding", "vocabulary": case.rows, "dim": DIM, "placement": case.placement}
    return JobSpec.parse(
        {
            "model": model,
            "data": {"kind": "synthetic_clicks", **data},
            "train": {"steps": STEPS},
            "runtime": {"devices": case.ranks, "engine": "graph"},
        }
    )


if __name__ == "__main__":
    main()
