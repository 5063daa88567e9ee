"""The times of ranks: how much is communication, and who is slow."""

import pytest

from ampcore.training.ranks.times import RankTimes


def test_the_rank_that_others_wait_for_is_slow():
    times = RankTimes(3)
    times.observe(40, [[4.0, 2.0], [4.0, 0.4], [4.0, 2.2]])
    assert times.slow_ranks == (1,)
    facts = times.to_json()
    assert facts["slow_ranks"] == [1]
    assert facts["communication_share"] == pytest.approx(4.6 / 12)
    assert facts["ranks"][1] == {
        "rank": 1,
        "step_time_s": pytest.approx(0.1),
        "own_time_s": pytest.approx(0.09),
        "communication_share": pytest.approx(0.1),
    }
    assert (
        "The others wait for rank 1, which computes 1.8 times as long"
        in (times.event(39).data["sentence"])
    )


def test_equal_ranks_are_not_slow():
    times = RankTimes(2)
    times.observe(40, [[4.0, 1.0], [4.0, 1.2]])
    assert times.slow_ranks == ()
    assert times.event(39).data["sentence"].startswith("The ranks are equally fast; 28%")


def test_a_rank_is_not_called_slow_after_a_few_steps():
    times = RankTimes(2)
    times.observe(5, [[4.0, 0.0], [4.0, 3.0]])
    assert times.slow_ranks == ()


def test_an_event_tells_when_another_rank_is_slow():
    times = RankTimes(2)
    assert times.event(0) is None
    times.observe(40, [[4.0, 1.0], [4.0, 1.0]])
    assert times.changed_event(39) is None
    times.observe(40, [[8.0, 1.0], [8.0, 7.0]])
    assert times.changed_event(79).data["slow_ranks"] == [0]
    assert times.changed_event(80) is None
