"""The reference page of the job spec is generated from its schema and is complete."""

import re
from pathlib import Path

from ampspec.jobs import JobSpec
from ampspec.reference.spec import render_page

PAGE = Path(__file__).parents[3] / "docs/reference/spec.md"


def test_the_page_is_up_to_date_with_the_schema():
    text = PAGE.read_text(encoding="utf-8")
    assert text == render_page(), "run: python -m ampspec.reference.spec > docs/reference/spec.md"


def test_every_field_and_every_kind_is_on_the_page():
    schema = JobSpec.model_json_schema()
    parts = [schema, *schema["$defs"].values()]
    documented = set(re.findall(r"^\| `(\w+)` \|", render_page(), re.MULTILINE))
    tags = {
        (name, field["const"])
        for part in parts
        for name, field in part["properties"].items()
        if "const" in field
    }
    fields = {
        name for part in parts for name, field in part["properties"].items() if "const" not in field
    }
    assert documented == fields
    assert set(re.findall(r"^### `(\w+): (\w+)`", render_page(), re.MULTILINE)) == tags


def test_limits_and_defaults_are_readable():
    lines = render_page().splitlines()
    assert "| `scale` | number ≥ 2^-96, ≤ 2^96 | `1024` |  |" in lines
    assert "| `seed` | integer ≥ 0, ≤ 2^31 - 1 | `0` |  |" in lines
    [ema] = {line for line in lines if line.startswith("| `ema` |")}
    assert "number > 0, < 1 or null | `null` | Momentum of an exponential moving average" in ema
    [filters] = {line for line in lines if line.startswith("| `generator` |")}
    assert "the image size doubles after each of the first two." in filters
