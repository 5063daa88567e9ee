"""The guide to mixed precision explains every value of its tables, and its specs are valid."""

import re
from pathlib import Path

import pytest
import yaml

from ampspec.jobs import JobSpec
from ampspec.telemetry.events import EventType
from ampspec.telemetry.scale_health import ScaleHealth

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "docs/guides/mixed-precision.md").read_text(encoding="utf-8")
YAML = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def table(head: str) -> set[str]:
    """The words in code style in the first column of the table with this head."""
    rows = GUIDE.partition(f"\n| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_every_value_of_scale_health_is_explained():
    assert table("`scale_health`") == {str(health) for health in ScaleHealth}


def test_every_event_is_explained():
    assert table("event") == {str(event) for event in EventType}


def test_every_overflow_cause_is_explained():
    source = (ROOT / "ampcore/diagnostics/steps/overflow_cause.py").read_text(encoding="utf-8")
    causes = source.partition("class OverflowCause")[2].partition("@dataclass")[0]
    assert table("`diagnosis`") == set(re.findall(r' = "(\w+)"', causes))


def test_every_mode_of_a_loss_scale_is_explained():
    modes = JobSpec.model_json_schema()["properties"]["loss_scale"]["discriminator"]["mapping"]
    assert table("`mode`") == set(modes)


def test_the_named_preflight_findings_exist():
    checks = (ROOT / "ampspec/preflight/checks").glob("*.py")
    source = "".join(file.read_text(encoding="utf-8") for file in checks)
    codes = set(re.findall(r"`((?:\w+_)(?:cpu|cores|8|policy|float32|grows|overflows))`", GUIDE))
    named = codes - {"float32_fallback"}
    assert len(named) >= 8
    assert [code for code in named if f'"{code}"' not in source] == []


@pytest.mark.parametrize("text", YAML)
def test_each_yaml_block_is_part_of_a_valid_spec(text):
    minimal = {"model": {"kind": "cnn"}, "data": {"kind": "digits"}}
    assert JobSpec.parse({**minimal, **yaml.safe_load(text)}).precision.policy == "mixed_float16"
