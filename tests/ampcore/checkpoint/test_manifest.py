import json
import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ampcore.checkpoint import Manifest
from ampspec.telemetry.json_values import NON_FINITE

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
WORDS = TEXT.filter(lambda text: text not in NON_FINITE)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
FINITE_JSON = st.dictionaries(
    TEXT, st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT, max_size=4
)
FACTS = st.dictionaries(TEXT, JSON, max_size=4)
MANIFESTS = st.builds(
    Manifest,
    step=st.integers(0, 2**53),
    spec=st.dictionaries(TEXT, st.none() | st.booleans() | TEXT | FINITE_JSON, max_size=4),
    policy=TEXT,
    loss_scales=st.dictionaries(TEXT, FACTS, max_size=3),
    engine=TEXT,
    device=TEXT,
    versions=st.dictionaries(TEXT, TEXT, max_size=3),
    counters=FACTS,
    created_at=st.datetimes(timezones=st.just(UTC)),
)


def same(a, b):
    """Equal in value and type; NaN equals NaN, and 0.0 is not -0.0."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b)
    return type(a) is type(b) and a == b


@given(MANIFESTS)
def test_every_field_survives_a_round_trip_through_json(manifest):
    back = Manifest.model_validate_json(manifest.model_dump_json())
    for name in Manifest.model_fields:
        assert same(getattr(back, name), getattr(manifest, name)), name


def test_numbers_that_are_not_finite_are_written_as_names(make_checkpoint):
    counters = {"final_loss": math.nan, "largest": [math.inf, -math.inf]}
    written = json.loads(make_checkpoint(counters=counters).manifest.model_dump_json())
    assert written["counters"] == {"final_loss": "NaN", "largest": ["Infinity", "-Infinity"]}


def test_the_creation_time_is_the_current_time_in_utc(make_checkpoint):
    before = datetime.now(UTC)
    manifest = make_checkpoint().manifest
    assert before <= manifest.created_at <= datetime.now(UTC)
    assert manifest.created_at.utcoffset() == timedelta(0)


def test_a_creation_time_without_a_time_zone_is_refused(make_checkpoint):
    with pytest.raises(ValidationError):
        make_checkpoint(created_at=datetime(2026, 1, 1))
    zoned = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert make_checkpoint(created_at=zoned).manifest.created_at == zoned
