"""The ranks of this program, however it was started."""

import os

from ampcore.distributed import environment
from ampcore.distributed.cluster import DEFAULT_TIMEOUT_S, Cluster
from ampcore.distributed.cores import use_own_cores
from ampcore.distributed.launchers.meeting import Meeting, meet
from ampcore.distributed.launchers.meeting_point import find_meeting_point
from ampcore.distributed.launchers.placement import find_placement, is_alone
from ampcore.distributed.launchers.rank_output import prefix_output
from ampcore.distributed.launchers.tf_config import cluster_of_tf_config

_meeting: Meeting | None = None
"""What this process has learned from the other ranks: they meet once."""
_is_configured = False
"""Whether this process has taken its share of a machine on which TF_CONFIG has several ranks."""


def find_cluster() -> Cluster | None:
    """See `ampcore.distributed.cluster_from_environment`."""
    global _meeting  # noqa: PLW0603 - the ranks meet once
    if (launched := environment.cluster()) is not None:
        return launched
    if is_alone(os.environ):
        return None
    if (configured := cluster_of_tf_config(os.environ, DEFAULT_TIMEOUT_S)) is not None:
        _share_machine(configured)
        return configured
    if _meeting is None and (placement := find_placement(os.environ)) is not None:
        point = find_meeting_point(placement, os.environ)
        _meeting = meet(placement, point, DEFAULT_TIMEOUT_S)
        if _meeting.core_share is not None:
            use_own_cores(*_meeting.core_share)
        prefix_output(placement.rank)
    return None if _meeting is None else _meeting.cluster


def _share_machine(cluster: Cluster) -> None:
    """Take this rank's share of the cores, and prefix what it prints; once."""
    global _is_configured  # noqa: PLW0603 - as above
    if _is_configured:
        return
    _is_configured = True
    hosts = [address.rpartition(":")[0] for address in cluster.addresses]
    local_size = hosts.count(hosts[cluster.rank])
    # With fewer cores than the machine has, somebody has given each rank its own.
    if local_size > 1 and len(os.sched_getaffinity(0)) == os.cpu_count():
        use_own_cores(cluster.local_rank, local_size)
    prefix_output(cluster.rank)
