"""The names of the communicator in version 0.5 work until 0.7."""

import pytest

from ampcore import distributed


@pytest.mark.parametrize(
    ("old", "new"), [("Replicas", "Communicator"), ("SingleReplica", "SingleRank")]
)
def test_a_name_of_0_5_is_the_new_one_and_warns(old, new):
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(distributed, old) is getattr(distributed, new)


def test_another_name_is_unknown():
    with pytest.raises(AttributeError, match="'Nodes'"):
        distributed.Nodes  # noqa: B018
