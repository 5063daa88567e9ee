import pytest

from ampspec.documents.problems import MAX_PROBLEMS
from ampspec.jobs import JobSpec, SpecValidationError


def test_a_long_list_of_problems_is_truncated_and_ends_with_the_total():
    with pytest.raises(SpecValidationError) as raised:
        JobSpec.parse({"model": {"kind": "mlp"}} | {f"x{i}": 1 for i in range(20_000)})
    *listed, last = raised.value.problems
    assert len(listed) == MAX_PROBLEMS
    assert (last.code, last.received) == ("too_many_problems", "20001")
