import pytest

from ampcore.spec import JobSpec, SpecInvalid
from ampcore.spec.problems import MOST_PROBLEMS


def test_of_very_many_mistakes_the_first_are_told_with_how_many_there_are():
    with pytest.raises(SpecInvalid) as raised:
        JobSpec.parse({"model": {"kind": "mlp"}} | {f"x{i}": 1 for i in range(20_000)})
    *told, last = raised.value.problems
    assert len(told) == MOST_PROBLEMS
    assert (last.code, last.received) == ("too_many_problems", "20001")
