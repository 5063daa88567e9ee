import pytest

from ampcore.spec import JobSpec, SpecInvalid
from ampcore.spec.availability import AVAILABLE
from ampcore.spec.problems import pointer

BASE = {"model": {"kind": "mlp"}, "data": {"kind": "digits"}}


def test_the_defaults_are_available():
    assert JobSpec.parse(BASE)


@pytest.mark.parametrize(
    ("part", "value", "place"),
    [
        ("runtime", {"queue": "fast"}, "/runtime/queue"),
        ("runtime", {"priority": 9}, "/runtime/priority"),
        ("runtime", {"max_attempts": 3}, "/runtime/max_attempts"),
        ("runtime", {"timeout_s": 5.0}, "/runtime/timeout_s"),
        ("runtime", {"devices": 2}, "/runtime/devices"),
    ],
)
def test_what_no_engine_can_honour_yet_is_refused_with_a_sentence(part, value, place):
    with pytest.raises(SpecInvalid) as caught:
        JobSpec.parse(BASE | {part: value})
    [problem] = caught.value.problems
    assert problem.pointer == place
    assert problem.code == "not_available"
    assert problem.detail.startswith("Expected ")
    assert problem.received is not None


def test_every_restricted_field_exists():
    made = JobSpec.parse(BASE)
    for path, values in AVAILABLE.items():
        value = made
        for name in path:
            value = getattr(value, name)
        assert value in values, pointer(path)
