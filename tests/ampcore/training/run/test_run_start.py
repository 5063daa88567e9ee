from types import SimpleNamespace

import pytest

from ampcore.checkpoint import FieldChange
from ampcore.distributed import SingleRank
from ampcore.training.run.start import resumes_in_float32

POLICY = FieldChange("precision.policy", "mixed_float16", "mixed_bfloat16")


class FollowingRank(SingleRank):
    """A rank that hears what rank 0 has decided."""

    def __init__(self, decision):
        self._decision = decision

    def broadcast_object(self, value):
        return self._decision


def saved(*, in_float32):
    manifest = SimpleNamespace(counters={"in_float32": in_float32}, step=3)
    return SimpleNamespace(manifest=manifest)


@pytest.mark.parametrize(
    ("in_float32", "differences", "resumes"),
    [(True, [], True), (True, [POLICY], False), (False, [], False)],
)
def test_a_fallback_to_float32_lasts_until_the_precision_changes(in_float32, differences, resumes):
    checkpoint = saved(in_float32=in_float32)
    assert resumes_in_float32(SingleRank(), checkpoint, differences) is resumes
    assert resumes_in_float32(SingleRank(), None, differences) is False


@pytest.mark.parametrize("decision", [True, False])
def test_rank_0_decides_for_all_ranks(decision):
    # It alone has compared the specs.
    found = resumes_in_float32(FollowingRank(decision), saved(in_float32=not decision), [])
    assert found is decision
