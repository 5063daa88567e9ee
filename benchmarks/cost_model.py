"""Predicts the time of a step on several ranks, and compares it with measured ones: one JSON line.

Measured are the exchange of gradients between two ranks in each dtype, from which bandwidth and
latency follow, and the step of each model: in two processes that do not communicate, which is the
time of the computation while both cores work, and its spread; on two ranks; and on two ranks that
exchange bfloat16. `--gpus` measures nothing and prints the tables of GPUs in docs/cost-model.md.
"""

import argparse
import os
import statistics
from collections.abc import Mapping
from typing import Any, Final

from compare import report, rotated
from compare.step_cost import Job, Network, Trees, efficiency, fit, step_s
from several_ranks import launched, measured

RANKS: Final = 2
ROUNDS: Final = 3
MODELS: Final = ("mlp", "cnn", "resnet20")
BYTES: Final = {"float32": 4, "bfloat16": 2}
SIZES: Final = {"220 kB": 220e3, "4.8 MB": 4.8e6}

US, GB = 1e-6, 1e9
REACHED: Final = 0.8
"""The share of a link's bandwidth that an all-reduce reaches: an assumption."""
SPREAD: Final = 0.01
"""The standard deviation of a GPU's step time over its mean: an assumption."""
# Latencies in seconds of NCCL's own model, src/graph/tuning.cc: the ring with the protocol Simple,
# trees with LL128.
LATENCIES: Final[dict[str, Any]] = {
    "hop_s": 3.4 * US,
    "machine_hop_s": 9.6 * US,
    "start_s": 8.4 * US,
    "trees": Trees(1.2 * US, 8.5 * US, 4.4 * US, bandwidth_share=0.9),
}
NVLINK: Final = Network(REACHED * 450 * GB, **LATENCIES)
INFINIBAND: Final = Network(REACHED * 400 * GB, **LATENCIES)
ETHERNET: Final = Network(REACHED * 12.5 * GB, **LATENCIES)
GPUS: Final[list[tuple[str, int, Network]]] = [
    ("8, NVLink", 8, NVLINK),
    ("64, InfiniBand", 64, INFINIBAND),
    ("512, InfiniBand", 512, INFINIBAND),
    ("64, one 100 Gb/s Ethernet for each machine", 64, ETHERNET),
]
IMAGES_PER_S, IMAGES = 3000.0, 256
TOKENS, PARAMETERS, FLOPS_PER_S = 16_384, 1.3e9, 0.4 * 989e12
JOBS: Final = {
    "ResNet-50": Job(IMAGES / IMAGES_PER_S, 25.6e6),
    "1.3 billion parameters": Job(6 * PARAMETERS * TOKENS / FLOPS_PER_S, PARAMETERS),
}
EXCHANGES: Final = [
    ("float32", {"bytes_each": 4}),
    ("16 bits", {"bytes_each": 2}),
    ("16 bits, buckets of 64 MiB", {"bytes_each": 2, "bucket_bytes": 64 * 2**20}),
]


def gpu_tables() -> str:
    """The predictions for GPUs, as Markdown."""
    names = [name for name, _ in EXCHANGES]
    lines = []
    for title, job in JOBS.items():
        lines += ["", f"| {title}: GPUs | {' | '.join(names)} |", f"|{' --- |' * (len(names) + 1)}"]
        for name, ranks, network in GPUS:
            cells = [_cell(_with(job, **options), ranks, network) for _, options in EXCHANGES]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines[1:])


def _with(job: Job, **options: Any) -> Job:
    return Job(job.compute_s, job.parameters, **options)


def _cell(job: Job, ranks: int, network: Network) -> str:
    share = efficiency(job, ranks, network, SPREAD)
    return f"{1e3 * step_s(job, ranks, network, SPREAD):.1f} ms, {100 * share:.0f} %"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", action="store_true", help="print the tables of GPUs")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    if arguments.gpus:
        print(gpu_tables())
        return
    load = os.getloadavg()[0]
    networks = {exchange: _network(exchange, arguments.rounds) for exchange in BYTES}
    report(
        "cost_model",
        load=load,
        bandwidth_gb_per_s={name: round(one.bandwidth / GB, 3) for name, one in networks.items()},
        hop_ms={name: round(1e3 * one.hop_s, 3) for name, one in networks.items()},
        step_ms={name: _compared(name, arguments.rounds, networks) for name in MODELS},
    )


def _network(exchange: str, rounds: int) -> Network:
    """The bandwidth, in bytes that travel, and the latency of an exchange in a dtype."""
    command = launched(RANKS, "ours.rank_collectives", exchange)
    found = [measured(command) for _ in range(rounds)]
    sent = BYTES[exchange] / BYTES["float32"]
    times = {
        sent * size: statistics.median(one[name]["ms"] for one in found) / 1e3
        for name, size in SIZES.items()
    }
    return fit(times, RANKS)


def _compared(
    model: str, rounds: int, networks: Mapping[str, Network]
) -> dict[str, dict[str, float]]:
    """The predicted and the measured time of a step, by the dtype of the exchange."""
    found: dict[str, list[Any]] = {"apart": [], **{name: [] for name in BYTES}}
    for index in range(rounds):
        for exchange in rotated(list(found), index):
            found[exchange].append(measured(launched(RANKS, "ours.ranks", model, exchange)))
    milliseconds = {
        name: statistics.median(one["step_ms"] for one in answers)
        for name, answers in found.items()
    }
    parameters = found["apart"][0]["parameters"]
    spread = statistics.median(one["spread"] for one in found["apart"])
    return {
        name: predicted_and_measured(
            Job(milliseconds["apart"] / 1e3, parameters, bytes_each, overlaps=False),
            networks[name],
            spread,
            milliseconds[name],
        )
        for name, bytes_each in BYTES.items()
    }


def predicted_and_measured(
    job: Job, network: Network, spread: float, measured_ms: float
) -> dict[str, float]:
    """Both times of a step in milliseconds, and their ratio."""
    predicted_ms = 1e3 * step_s(job, RANKS, network, spread)
    return {
        "predicted": round(predicted_ms, 1),
        "measured": round(measured_ms, 1),
        "ratio": round(predicted_ms / measured_ms, 3),
        "spread": round(spread, 3),
    }


if __name__ == "__main__":
    main()
