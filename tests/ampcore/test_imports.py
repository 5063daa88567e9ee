import subprocess
import sys

import pytest

import ampcore

HEAVY = ("tensorflow", "keras", "pyarrow", "pandas", "fastapi", "sqlalchemy", "celery")


def loaded_by(statement):
    """Which heavy modules a fresh Python has loaded after the statement."""
    check = f"{statement}; import sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    "statement",
    [
        "import ampcore",
        "from ampcore import JobSpec, StepBlock",
        "import ampspec.jobs, ampspec.telemetry, ampspec.documents.assignments",
        "import ampcore.__main__",
    ],
)
def test_an_import_loads_no_heavy_module(statement):
    assert loaded_by(statement) == []


def test_every_exported_name_exists_and_the_names_are_sorted():
    assert ampcore.__all__ == sorted(ampcore.__all__)
    for name in ampcore.__all__:
        exported = getattr(ampcore, name)
        assert getattr(exported, "__name__", name) == name  # a union of types has none


def test_dir_shows_the_public_names_only():
    assert dir(ampcore) == sorted([*ampcore.__all__, "__version__"])


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Trainr'"):
        ampcore.Trainr  # noqa: B018 - the attribute access is what is tested
