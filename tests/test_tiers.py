"""Which tests are slow, and the check of what they cost."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[1]


def times_file(folder: Path, *times: tiers.TestTime) -> Path:
    """What `--times` writes."""
    file = folder / "times.jsonl"
    file.write_text("\n".join(json.dumps(time._asdict()) for time in times), encoding="utf-8")
    return file


def test_a_quick_test_that_takes_more_than_its_share_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cheap = [tiers.TestTime(f"tests/a.py::test_{n}", "quick", 1.0, 1.0) for n in range(198)]
    file = times_file(tmp_path, *cheap, tiers.TestTime("tests/a.py::big", "quick", 1.0, 2.1))
    assert tiers.main([str(file)]) == 1
    assert "tests/a.py::big: 2.1 s" in capsys.readouterr().out


def test_a_slow_test_may_take_any_time(tmp_path: Path) -> None:
    cheap = [tiers.TestTime(f"tests/a.py::test_{n}", "quick", 1.0, 1.0) for n in range(100)]
    file = times_file(tmp_path, *cheap, tiers.TestTime("tests/a.py::big", "slow", 99.0, 99.0))
    assert tiers.main([str(file)]) == 0


def test_processor_time_includes_children_that_have_ended() -> None:
    before_s = tiers.processor_s()
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
    own = resource.getrusage(resource.RUSAGE_SELF)
    assert tiers.processor_s() - before_s > 0
    assert tiers.processor_s() > own.ru_utime + own.ru_stime


def test_slow_folders_exist() -> None:
    assert all(folder.is_dir() for folder in tiers.SLOW_FOLDERS)
