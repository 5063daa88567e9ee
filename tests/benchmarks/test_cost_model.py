"""The predicted time of a step on several ranks, in cases that can be computed by hand."""

import importlib
import math

import pytest


@pytest.fixture
def step_cost(monkeypatch, request):
    """The module benchmarks/compare/step_cost.py."""
    monkeypatch.syspath_prepend(request.config.rootpath / "benchmarks")
    return importlib.import_module("compare.step_cost")


def test_a_ring_sends_almost_twice_the_bytes_in_two_hops_for_each_other_rank(step_cost):
    network = step_cost.Network(bandwidth=1e9, hop_s=0.001)
    assert step_cost.all_reduce_s(4e6, 1, network) == 0
    assert step_cost.all_reduce_s(4e6, 2, network) == pytest.approx(2 * 0.001 + 0.004)
    assert step_cost.all_reduce_s(4e6, 4, network) == pytest.approx(6 * 0.001 + 0.006)


def test_two_hops_for_each_other_machine_pass_the_network_between_machines(step_cost):
    network = step_cost.Network(1e9, hop_s=0.001, machine_hop_s=0.1, ranks_per_machine=2)
    found = step_cost.all_reduce_s(6e6, 6, network)
    assert found == pytest.approx(6 * 0.001 + 4 * 0.1 + 10 / 6 * 0.006)


def test_trees_are_used_where_they_are_faster_than_the_ring(step_cost):
    trees = step_cost.Trees(0.001, 0.001, 0.0, bandwidth_share=0.5)
    ring = step_cost.Network(1e9, 0.001, 0.001)
    both = step_cost.Network(1e9, 0.001, 0.001, trees=trees)
    small, large = 1e3, 1e12
    tree_s = 2 * (7 * 0.001 + math.log2(8) * 0.001) + 4 * small / 1e9
    assert step_cost.all_reduce_s(small, 64, both) == pytest.approx(tree_s)
    assert tree_s < step_cost.all_reduce_s(small, 64, ring)
    assert step_cost.all_reduce_s(large, 64, both) == step_cost.all_reduce_s(large, 64, ring)


def test_only_what_is_left_after_the_computation_is_added(step_cost):
    network = step_cost.Network(1e9, 0.0)
    job = step_cost.Job(0.03, parameters=2e6, bucket_bytes=2e6, forward_share=0.5)
    # Four buckets of 2 ms; the last one is ready when the computation ends.
    assert step_cost.step_s(job, 2, network) == pytest.approx(0.03 + 0.002)
    slow = step_cost.Network(0.1e9, 0.0)
    # Four buckets of 20 ms, one after the other from 18.75 ms on.
    assert step_cost.step_s(job, 2, slow) == pytest.approx(0.01875 + 4 * 0.02)


def test_without_overlap_the_whole_exchange_is_added_and_16_bits_halve_it(step_cost):
    network = step_cost.Network(1e9, 0.0)
    job = step_cost.Job(0.03, parameters=2e6, overlaps=False)
    assert step_cost.step_s(job, 2, network) == pytest.approx(0.03 + 0.008)
    half = step_cost.Job(0.03, parameters=2e6, bytes_each=2, overlaps=False)
    assert step_cost.step_s(half, 2, network) == pytest.approx(0.03 + 0.004)
    assert step_cost.efficiency(half, 2, network) == pytest.approx(0.03 / 0.034)


def test_all_ranks_wait_for_the_slowest_one(step_cost):
    job = step_cost.Job(1.0, parameters=0)
    network = step_cost.Network(1e9, 0.0)
    assert step_cost.step_s(job, 1, network, spread=0.1) == 1.0
    expected = 1 + 0.1 * math.sqrt(2 * math.log(100))
    assert step_cost.step_s(job, 100, network, spread=0.1) == pytest.approx(expected)


def test_bandwidth_and_latency_follow_from_two_sizes(step_cost):
    network = step_cost.Network(0.8e9, 0.0002, ranks_per_machine=4)
    times = {size: step_cost.all_reduce_s(size, 4, network) for size in (2e5, 5e6)}
    found = step_cost.fit(times, 4)
    assert (found.bandwidth, found.hop_s) == (pytest.approx(0.8e9), pytest.approx(0.0002))


def test_the_page_has_the_tables_that_the_script_prints(step_cost, request):
    tables = importlib.import_module("cost_model").gpu_tables()
    page = (request.config.rootpath / "docs/cost-model.md").read_text(encoding="utf-8")
    assert tables in page
