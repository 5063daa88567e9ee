"""The stack of the tests before this one is ended: all come to an orderly end, nothing is left."""

import pytest

from tests.chaos import groups
from tests.chaos.cluster import SCRIPTED, Cluster


@pytest.mark.parametrize(
    "_group",
    [
        pytest.param("real", marks=groups.REAL, id="real"),
        pytest.param("scripted", marks=groups.SCRIPTED, id="scripted"),
    ],
)
def test_a_stack_that_is_ended_leaves_no_process_and_no_file(cluster: Cluster, _group: str) -> None:
    """The guards: a worker ends its trainers and its guard, a server what it has begun.

    Checked: a file in the folder for temporary files, and a process that has it as its own, are
    named.
    """
    if not any(worker.running for worker in cluster.workers):
        cluster.crew(1, SCRIPTED)
    assert cluster.end() == []
