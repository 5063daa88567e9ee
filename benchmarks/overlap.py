"""How much of the exchange is hidden behind the backward pass on a slow network: one JSON line.

Two ranks, each on a core and in a network namespace of its own, with a cable of a limited rate
between them. On such a network a rank waits for bytes, so it can compute meanwhile. Compared are
steps whose gradients travel in buckets, each as soon as it is computed, with steps that exchange
all gradients in one bucket at the end. The predictions are those of docs/cost-model.md, from the
exchange of gradients on the same cable. It needs root, and the programs `ip` and `tc`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from compare import BENCHMARKS, report, rotated
from compare.step_cost import Job, Network, fit, step_s
from cost_model import GB, SIZES
from several_ranks import ONE_THREAD, TIMEOUT_S

from ampcore.distributed.buckets import DEFAULT_BUCKET_BYTES
from ampcore.distributed.cluster import Cluster
from ampcore.distributed.environment import of_rank

RANKS: Final = 2
ROUNDS: Final = 3
RATES: Final = ("1gbit", "2gbit")
MODEL: Final = "deep_mlp"
ADDRESSES: Final = ("10.77.0.1", "10.77.0.2")
PORT: Final = 42_000
ONE_BUCKET: Final = 2**30
BYTES_EACH: Final = 4
VARIANTS: Final[dict[str, Sequence[str]]] = {
    "apart": (MODEL, "apart"),
    "one bucket": (MODEL, "float32", str(ONE_BUCKET)),
    "buckets": (MODEL, "float32", str(DEFAULT_BUCKET_BYTES)),
}


@contextmanager
def cable(rate: str) -> Iterator[Sequence[str]]:
    """Two network namespaces that are connected; each sends at most at this rate."""
    names = [f"overlap{os.getpid()}-{number}" for number in range(RANKS)]
    with ExitStack() as stack:
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "delete", name)
        run("ip", "link", "add", "cable", "netns", names[0], "type", "veth",
            "peer", "cable", "netns", names[1])  # fmt: skip
        for name, address in zip(names, ADDRESSES, strict=True):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "link", "set", "cable", "up")
            limit = ("rate", rate, "burst", "128kb", "latency", "100ms")
            run("tc", "-n", name, "qdisc", "add", "dev", "cable", "root", "tbf", *limit)
        yield names


def run(*command: str) -> None:
    """Run a command of the system."""
    subprocess.run(command, check=True)


def inside(name: str, core: int) -> Sequence[str]:
    """The prefix of a command that runs in a network namespace, on one core."""
    return ["ip", "netns", "exec", name, "taskset", "-c", str(core)]


def measured(names: Sequence[str], module: str, *arguments: str) -> Any:
    """What rank 0 of a program prints in its last line; one rank in each namespace."""
    program = str(BENCHMARKS / f"{module.replace('.', '/')}.py")
    path = os.pathsep.join([str(BENCHMARKS), str(BENCHMARKS.parent)])
    addresses = tuple(f"{address}:{PORT}" for address in ADDRESSES)
    ranks = []
    for number, name in enumerate(names):
        variables = of_rank(Cluster(addresses, number), threads=1)
        ranks.append(
            subprocess.Popen(
                [*inside(name, core=number), sys.executable, program, *arguments],
                cwd=BENCHMARKS,
                env={**os.environ, **ONE_THREAD, **variables, "PYTHONPATH": path},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    try:
        answers = [rank.communicate(timeout=TIMEOUT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return json.loads(answers[0].splitlines()[-1])


def on(rate: str, rounds: int) -> Mapping[str, Any]:
    """The figures on a cable of this rate."""
    found: dict[str, list[Any]] = {name: [] for name in VARIANTS}
    with cable(rate) as names:
        exchanges = [measured(names, "ours.rank_collectives") for _ in range(rounds)]
        for index in range(rounds):
            for name in rotated(list(VARIANTS), index):
                found[name].append(measured(names, "ours.ranks", *VARIANTS[name]))
    step_ms = {
        name: statistics.median(one["step_ms"] for one in answers)
        for name, answers in found.items()
    }
    spread = statistics.median(one["spread"] for one in found["apart"])
    parameters = found["apart"][0]["parameters"]
    network = network_of(exchanges)
    predicted_ms = {
        name: 1e3
        * step_s(Job(step_ms["apart"] / 1e3, parameters, bucket_bytes=size), RANKS, network, spread)
        for name, size in {"one bucket": ONE_BUCKET, "buckets": DEFAULT_BUCKET_BYTES}.items()
    }
    waits_ms = {name: step_ms[name] - step_ms["apart"] for name in predicted_ms}
    return {
        "bandwidth_gb_per_s": round(network.bandwidth / GB, 3),
        "gradients_mb": round(BYTES_EACH * parameters / 1e6, 1),
        "step_ms": _rounded(step_ms, 1),
        "hidden_share": round(1 - waits_ms["buckets"] / waits_ms["one bucket"], 3),
        "predicted_ms": _rounded(predicted_ms, 1),
        "predicted_over_measured": _rounded(
            {name: value / step_ms[name] for name, value in predicted_ms.items()}, 3
        ),
    }


def _rounded(values: Mapping[str, float], digits: int) -> Mapping[str, float]:
    return {name: round(value, digits) for name, value in values.items()}


def network_of(exchanges: Sequence[Mapping[str, Any]]) -> Network:
    """The bandwidth and the latency, from the exchanges of two sizes."""
    times_s = {
        size: statistics.median(one[name]["ms"] for one in exchanges) / 1e3
        for name, size in SIZES.items()
    }
    return fit(times_s, RANKS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", nargs="+", default=RATES, help="of the cable, as for `tc`")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        report("overlap", skipped="it needs root, for network namespaces")
        return
    load = os.getloadavg()[0]
    rates = {rate: on(rate, arguments.rounds) for rate in arguments.rates}
    report("overlap", load=load, rates=rates)


if __name__ == "__main__":
    main()
