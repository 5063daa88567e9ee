from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import literal, select

from store.clock import UtcDateTime, from_now, now, seconds_since
from tests.tables import every_row
from tests.waiting import DEADLINE_S

EXACT = timedelta(milliseconds=2)
"""The resolution of a difference of two times: SQLite rounds it to milliseconds."""


def test_now_is_an_aware_utc_time_close_to_the_local_clock(database):
    local_time = datetime.now(UTC)
    with database.read() as session:
        present = session.scalar(select(now()))
    assert present.tzinfo is UTC
    max_clock_difference = timedelta(seconds=5)
    assert local_time - max_clock_difference < present < datetime.now(UTC) + max_clock_difference


def test_now_has_microseconds(database):
    with database.read() as session:
        times = [session.scalar(select(now())) for _ in range(10)]
    assert any(time.microsecond % 1000 for time in times)


@every_row("seconds", [0.25, 30, -30, 86_400 * 400, 1e-3])
def test_after_adds_seconds_to_the_current_time(database, seconds):
    with database.read() as session:
        first, moved, last = session.execute(select(now(), from_now(seconds), now())).one()
    assert first - EXACT <= moved - timedelta(seconds=seconds) <= last + EXACT


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=25,
)
@given(
    moment=st.datetimes(
        min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.timezones()
    )
)
def test_a_time_of_any_zone_is_read_back_as_the_same_time_in_utc(database, moment):
    with database.read() as session:
        back = session.scalar(select(literal(moment, UtcDateTime())))
    assert back == moment.astimezone(UTC)
    assert back.tzinfo is UTC


@pytest.mark.parametrize("moved_s", [0.25, 30.0, -86_400.0])
def test_the_seconds_between_two_times_are_a_float(database, moved_s):
    since = seconds_since(from_now(-moved_s))
    until = seconds_since(from_now(-5), until=from_now(-5 + moved_s))
    with database.read() as session:
        first, *both, last = session.execute(select(now(), since, until, now())).one()
    for seconds in both:
        assert isinstance(seconds, float)
        assert -EXACT <= timedelta(seconds=seconds - moved_s) <= last - first + EXACT


def test_seconds_since_accepts_a_python_datetime(database):
    with database.read() as session:
        present = session.scalar(select(now()))
        assert 0 <= session.scalar(select(seconds_since(present))) < DEADLINE_S
