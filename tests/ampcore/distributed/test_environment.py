"""The environment variables of a rank."""

import os

import pytest

from ampcore.distributed import cores
from ampcore.distributed.cluster import Cluster
from ampcore.distributed.environment import INTER_OP_THREADS, of_rank

CLUSTER = Cluster(("127.0.0.1:1", "127.0.0.1:2"), 0)


@pytest.mark.parametrize(("threads", "expected"), [(1, "2"), (2, None)])
def test_a_rank_with_one_thread_can_start_an_exchange_while_it_computes(
    monkeypatch, threads, expected
):
    monkeypatch.delenv(INTER_OP_THREADS, raising=False)
    assert of_rank(CLUSTER, threads).get(INTER_OP_THREADS) == expected


def test_the_number_that_a_user_has_set_is_kept(monkeypatch):
    monkeypatch.setenv(INTER_OP_THREADS, "1")
    assert INTER_OP_THREADS not in of_rank(CLUSTER, 1)


def test_a_rank_of_a_worker_with_one_core_has_the_same_number(monkeypatch):
    changed = dict.fromkeys(cores.THREADS, "1")
    monkeypatch.setattr(os, "environ", changed)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, own: None)
    cores.use_own_cores(1, 2)
    assert changed[INTER_OP_THREADS] == "2"
