"""Type checkers know every public name, and studies take the options of the API."""

import re
from pathlib import Path

import pytest
from mypy import api as mypy

import ampclient
from ampclient import study_options
from ampspec.api import study_requests
from tests.tables import every_row

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_no_public_name_is_untyped(tmp_path):
    """Fails for a name that is exported at run time only: it would be Any to users."""
    lines = ["import ampclient", *(f"reveal_type(ampclient.{name})" for name in ampclient.__all__)]
    program = tmp_path / "reveal.py"
    program.write_text("\n".join(lines))
    out, err, _ = mypy.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--follow-imports=silent",
         f"--cache-dir={tmp_path}", str(program)]
    )  # fmt: skip
    revealed = re.findall(r'note: Revealed type is "(.*)"', out)
    assert len(revealed) == len(ampclient.__all__), out + err
    untyped = [
        name
        for name, kind in zip(ampclient.__all__, revealed, strict=True)
        if not re.search(rf"^def .* -> .*\b{name}\b" if name[0].isupper() else "^def ", kind)
    ]
    assert untyped == []


KINDS = {
    "Precision": study_requests.PrecisionOptions,
    "Capacity": study_requests.CapacityOptions,
    "Bisect": study_requests.BisectOptions,
    "Search": study_requests.SearchOptions,
}


@every_row("kind", list(KINDS))
def test_the_options_of_a_study_are_those_of_the_api(kind):
    typed = getattr(study_options, f"{kind}Options").__annotations__.keys()
    assert set(typed) == set(KINDS[kind].model_fields) - {"space"}
