"""The reference page of the layers is generated from their classes and is complete."""

import re
from pathlib import Path

from ampspec.layers.catalog import LAYERS
from ampspec.reference.layers import render_page

PAGE = Path(__file__).parents[4] / "docs/reference/layers.md"


def test_the_page_is_up_to_date_with_the_classes():
    command = "python -m ampspec.reference.layers > docs/reference/layers.md"
    assert PAGE.read_text(encoding="utf-8") == render_page(), f"run: {command}"


def test_every_kind_and_every_field_is_on_the_page():
    sections = re.split(r"^### ", render_page(), flags=re.MULTILINE)[1:]
    documented = {section.partition("`")[2].partition("`")[0]: section for section in sections}
    assert list(documented) == list(LAYERS)
    for kind, section in documented.items():
        fields = set(re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE))
        assert fields == LAYERS[kind].model_fields.keys() - {"layer", "name", "inputs", "trainable"}
