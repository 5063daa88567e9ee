import pytest

from ampcore.spec import JobSpec, SpecValidationError
from ampcore.spec.problems import MAX_PROBLEMS


def test_of_very_many_mistakes_the_first_are_listed_with_their_total():
    with pytest.raises(SpecValidationError) as raised:
        JobSpec.parse({"model": {"kind": "mlp"}} | {f"x{i}": 1 for i in range(20_000)})
    *told, last = raised.value.problems
    assert len(told) == MAX_PROBLEMS
    assert (last.code, last.received) == ("too_many_problems", "20001")
