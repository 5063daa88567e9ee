"""The environment variables of a rank: which rank it is, and how many threads it may use."""

import json
import os
from collections.abc import Mapping
from typing import Final

from ampcore.distributed.cluster import Cluster

CLUSTER: Final = "AMPCORE_CLUSTER"
"""The JSON of this rank's Cluster."""

ADDRESS_IN_USE: Final = 75
"""The exit code of a rank whose port is in use, EX_TEMPFAIL of sysexits.h: the launcher then
starts all ranks again with other ports."""

THREADS: Final = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")
"""Read by TensorFlow, and by the libraries that it calls, when they start."""


def cluster() -> Cluster | None:
    """The cluster that the launcher set; None without one. Raises ValueError."""
    text = os.environ.get(CLUSTER)
    if text is None:
        return None
    try:
        return Cluster.from_json(text)
    except ValueError as error:
        raise ValueError(f"{CLUSTER}: {error}") from None


def of_rank(cluster: Cluster, threads: int) -> Mapping[str, str]:
    """The variables of a rank that computes with so many threads on a CPU."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")}
    text = json.dumps(cluster.to_json())
    return {CLUSTER: text, **dict.fromkeys(THREADS, str(threads)), **quiet}
