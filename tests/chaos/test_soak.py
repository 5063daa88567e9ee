"""A short soak; `python -m tests.chaos.soak` runs a long one."""

from pathlib import Path

import pytest

from tests.chaos import xdist_groups
from tests.chaos.postgres import Postgres
from tests.chaos.soak import soak

pytestmark = xdist_groups.SCRIPTED

SECONDS = 45.0


@pytest.mark.slow
def test_nothing_is_lost_or_untrue_while_faults_follow_one_another(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked: if attempts end without waiting for uploads, it names jobs without their report."""
    monkeypatch.setenv("AMPCORE_TEST_SLOW_STORE", "")  # the soak sets it
    report = soak(tmp_path, postgres, SECONDS, seed=1)
    assert report.problems == []
    assert report.faults.total() >= 2
    assert report.jobs["jobs"] > 0
