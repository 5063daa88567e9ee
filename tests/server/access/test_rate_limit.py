import pytest

from server.access import rate_limit
from server.access.rate_limit import RateLimit, rate_limit_from_setting
from server.errors import TooManyRequests
from server.settings import Settings
from service.settings import SettingsInvalid


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


def test_a_refusal_says_when_the_window_ends_and_it_ends_then(clock):
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


def test_off_is_a_limit_that_refuses_nothing():
    limit = rate_limit_from_setting("off")
    for _ in range(1000):
        limit.hit("ada")
        limit.check("ada")


@pytest.mark.parametrize("rate", ["off", "1/second", "60000/minute", "5/day"])
def test_a_rate_that_makes_sense_is_taken(rate):
    assert Settings.from_environment({"AMPCORE_RATE_LIMIT": rate}).rate_limit == rate
    rate_limit_from_setting(rate)


@pytest.mark.parametrize("rate", ["0/minute", "5", "fast", "-1/second", "5/fortnight", "1/s;2/m"])
def test_a_rate_that_makes_no_sense_is_named_at_the_start(rate):
    with pytest.raises(SettingsInvalid, match="AMPCORE_RATE_LIMIT: expected off, or"):
        Settings.from_environment({"AMPCORE_RATE_LIMIT": rate})


@pytest.fixture
def limited(api):
    """The api, with a rate that is soon used up."""
    from server.access.auth_middleware import AuthMiddleware

    layer = next(one for one in api.app.user_middleware if one.cls is AuthMiddleware)
    layer.kwargs["limit"] = RateLimit("3/minute")
    return api


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


def test_too_many_requests_of_a_token_get_429_with_retry_after(limited, client_with_role):
    for _ in range(3):
        assert limited.client.get("/api/v1/version").status_code == 200
    answer = limited.client.get("/api/v1/version")
    assert answer.status_code == 429
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "too_many_requests"
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert client_with_role().get("/api/v1/version").status_code == 200
    assert limited.anonymous.get("/healthz").status_code == 200


def test_sessions_share_the_limit_of_their_token(limited):
    sign_in = limited.anonymous.post("/api/v1/session", json={"token": limited.token})
    headers = {"Cookie": sign_in.headers["Set-Cookie"].partition(";")[0]}
    limited.anonymous.cookies.clear()
    for _ in range(3):
        assert limited.client.get("/api/v1/version").status_code == 200
    assert limited.anonymous.get("/api/v1/version", headers=headers).status_code == 429
