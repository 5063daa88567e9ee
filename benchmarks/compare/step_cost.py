"""Predicts the time of a step on several ranks that exchange their gradients.

Sources: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
workstations" (ring); Thakur et al. 2005, "Optimization of collective communication operations in
MPICH" (latency and bandwidth); Sanders et al. 2009, "Two-tree algorithms for full bandwidth
broadcast, reduction and scan" (trees); Li et al. 2020, arXiv:2006.15704 (buckets and overlap).
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Trees:
    """All-reduce along trees: fewer hops than a ring, and a lower bandwidth.

    Args:
        hop_s: The latency of a hop between ranks of one machine.
        machine_hop_s: That between machines.
        start_s: The time to start an operation.
        bandwidth_share: The share of the ring's bandwidth.
    """

    hop_s: float
    machine_hop_s: float
    start_s: float
    bandwidth_share: float


@dataclass(frozen=True)
class Network:
    """What connects the ranks.

    Args:
        bandwidth: The bytes per second that a rank sends, and receives at the same time.
        hop_s: The latency from one rank to the next one in a ring on one machine.
        machine_hop_s: The latency to the next machine.
        start_s: The time to start an operation.
        ranks_per_machine: How many ranks a machine has.
        trees: The alternative to the ring, if the faster one is used.
    """

    bandwidth: float
    hop_s: float
    machine_hop_s: float = 0.0
    start_s: float = 0.0
    ranks_per_machine: int = 8
    trees: Trees | None = None


@dataclass(frozen=True)
class Job:
    """What a rank does in a step.

    Args:
        compute_s: The time of a step on one rank alone.
        parameters: The number of gradients.
        bytes_each: The size of a gradient on its way: 4, or 2 with a 16-bit exchange.
        bucket_bytes: The size of the buckets in which gradients are exchanged.
        overlaps: Whether a bucket is exchanged while other gradients are computed. A rank with one
            core of a CPU does one after the other.
        forward_share: The part of a step before the first gradient is ready.
    """

    compute_s: float
    parameters: float
    bytes_each: int = 4
    bucket_bytes: float = 4 * 2**20
    overlaps: bool = True
    forward_share: float = 1 / 3


def all_reduce_s(size_bytes: float, ranks: int, network: Network) -> float:
    """The time of one all-reduce."""
    if ranks == 1:
        return 0.0
    machines = math.ceil(ranks / network.ranks_per_machine)
    hops, crossings = 2 * (ranks - 1), 2 * (machines - 1)
    ring = (
        network.start_s
        + (hops - crossings) * network.hop_s
        + crossings * network.machine_hop_s
        + hops / ranks * size_bytes / network.bandwidth
    )
    trees = network.trees
    if trees is None:
        return ring
    in_machine = min(ranks, network.ranks_per_machine) - 1
    tree = (
        trees.start_s
        + 2 * (in_machine * trees.hop_s + math.log2(machines) * trees.machine_hop_s)
        + 2 * size_bytes / (trees.bandwidth_share * network.bandwidth)
    )
    return min(ring, tree)


def slowest_share(ranks: int, spread: float) -> float:
    """The expected time of the slowest of several ranks, over the mean time of a rank.

    Args:
        ranks: How many ranks.
        spread: The standard deviation of a rank's time, over its mean; normally distributed.
    """
    return 1 + spread * math.sqrt(2 * math.log(ranks))


def step_s(job: Job, ranks: int, network: Network, spread: float = 0.0) -> float:
    """The time of a step, from its start until the last gradient has been exchanged."""
    compute_s = job.compute_s * slowest_share(ranks, spread)
    size_bytes = job.parameters * job.bytes_each
    buckets = max(1, round(size_bytes / job.bucket_bytes))
    exchange_s = all_reduce_s(size_bytes / buckets, ranks, network)
    if not job.overlaps:
        return compute_s + buckets * exchange_s
    forward_s = compute_s * job.forward_share
    end_s = 0.0
    for number in range(1, buckets + 1):
        ready_s = forward_s + (compute_s - forward_s) * number / buckets
        end_s = max(end_s, ready_s) + exchange_s
    return end_s


def efficiency(job: Job, ranks: int, network: Network, spread: float = 0.0) -> float:
    """The examples per second of several ranks, over those of as many ranks without any loss."""
    return job.compute_s / step_s(job, ranks, network, spread)


def fit(times_s: dict[float, float], ranks: int) -> Network:
    """The bandwidth and latency of a ring on one machine, from two sizes and their times."""
    (small, small_s), (large, large_s) = sorted(times_s.items())
    hops = 2 * (ranks - 1)
    bandwidth = hops / ranks * (large - small) / (large_s - small_s)
    hop_s = max(0.0, small_s - hops / ranks * small / bandwidth) / hops
    return Network(bandwidth, hop_s, ranks_per_machine=ranks)
