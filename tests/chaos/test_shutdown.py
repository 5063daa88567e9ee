"""Stop the stack of the earlier tests: every process exits cleanly, and nothing is left."""

import pytest

from tests.chaos import xdist_groups
from tests.chaos.cluster import SCRIPTED, Cluster


@pytest.mark.parametrize(
    "_group",
    [
        pytest.param("real", marks=xdist_groups.TENSORFLOW, id="real"),
        pytest.param("scripted", marks=[xdist_groups.SCRIPTED, pytest.mark.quick], id="scripted"),
    ],
)
def test_a_stopped_stack_leaves_no_process_and_no_file(cluster: Cluster, _group: str) -> None:
    """Mechanisms: a worker ends its trainers and its tracker, a server its threads.

    Checked: a file left in the temporary folder, and a process that uses it, are reported.
    """
    if not any(worker.running for worker in cluster.workers):
        cluster.ensure_workers(1, SCRIPTED)
    assert cluster.end() == []
