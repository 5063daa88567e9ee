import pytest

from server.errors import TooManyRequests
from server.http.access import rate_limit
from server.http.access.rate_limit import RateLimit


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_key_may_hit_as_often_as_the_rate_says(clock):
    limit = RateLimit("2/minute", clock)
    limit.hit("ada")
    limit.hit("ada")
    limit.hit("bob")
    with pytest.raises(TooManyRequests):
        limit.hit("ada")


def test_the_error_says_when_the_window_ends(clock):
    limit = RateLimit("1/minute", clock)
    limit.hit("ada")
    clock.now += 20
    with pytest.raises(TooManyRequests, match="1 per 1 minute; try again in 40 s") as refusal:
        limit.hit("ada")
    assert refusal.value.retry_after_s == 40
    clock.now += 40
    limit.hit("ada")


def test_a_check_counts_nothing(clock):
    limit = RateLimit("1/minute", clock)
    limit.check("ada")
    limit.check("ada")
    limit.hit("ada")
    with pytest.raises(TooManyRequests):
        limit.check("ada")


def test_the_counters_are_bounded(clock, monkeypatch):
    monkeypatch.setattr(rate_limit, "MAX_COUNTERS", 10)
    limit = RateLimit("1/minute", clock)
    for number in range(100):
        limit.hit(f"address {number}")
    assert len(limit._counters._counters) <= 10
    with pytest.raises(TooManyRequests):
        limit.hit("address 99")
